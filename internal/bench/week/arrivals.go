package week

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(arrivals{})
	httpcaddyfile.RegisterHandlerDirective("week_arrivals", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next()
		return arrivals{}, nil
	})
}

// arrivals is a handler that notes which requests came as far as itself.
type arrivals struct{}

// CaddyModule implements [caddy.Module].
func (arrivals) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.week_arrivals", New: func() caddy.Module { return new(arrivals) }}
}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (arrivals) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if arrived, ok := r.Context().Value(arrivalKey{}).(*bool); ok {
		*arrived = true
	}
	return next.ServeHTTP(w, r)
}

type arrivalKey struct{}

// withArrival returns a request of which arrivals says that it came.
func withArrival(r *http.Request, arrived *bool) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), arrivalKey{}, arrived))
}
