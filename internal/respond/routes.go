package respond

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// errorRoutes returns the error to be returned if the server has error routes that
// apply to this request and status, else nil.
//
// A server holds the error routes of all its sites, so that their matchers decide: a
// site's host and path, and the status codes that a handle_errors names. They are
// asked with everything that Caddy will set for them. Where none applies Caddy would
// send an empty body, which is why the refusal is then written directly; that is also
// cheaper, since no error has to be made, logged and routed.
func errorRoutes(r *http.Request, f *Refusal, message string, after int64) error {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Errors == nil || len(server.Errors.Routes) == 0 {
		return nil
	}
	if r.Context().Value(caddyhttp.ErrorCtxKey) != nil {
		// We stand in an error route. Of an error in those Caddy only logs the text,
		// and sends the status of the first one.
		return nil
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return nil
	}
	failure := asError(f, message, after)
	if apply(server.Errors.Routes, server.Errors.WithError(original(r), failure)) {
		return failure
	}
	for _, name := range errorPlaceholders {
		repl.Delete(name)
	}
	return nil
}

// errorPlaceholders are those that HTTPErrorConfig.WithError sets.
var errorPlaceholders = [...]string{
	"http.error", "http.error.status_code", "http.error.status_text",
	"http.error.id", "http.error.trace", "http.error.message",
}

// original returns the request as error routes will see it: as it came in, before any
// rewrite.
func original(r *http.Request) *http.Request {
	was, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok {
		return r
	}
	r = r.WithContext(r.Context())
	r.Method, r.URL, r.RequestURI, r.RemoteAddr = was.Method, was.URL, was.RequestURI, was.RemoteAddr
	return r
}

// apply reports whether any of the routes would handle the request. The Caddyfile puts a
// site's routes into a subroute under the site's matcher: what counts there are the
// routes inside. Where a matcher fails Caddy would give up on its error routes, so they
// do not apply.
func apply(routes caddyhttp.RouteList, r *http.Request) bool {
	for i := range routes {
		matches, err := routes[i].MatcherSets.AnyMatchWithError(r)
		if err != nil {
			return false
		}
		if !matches {
			continue
		}
		for _, handler := range routes[i].Handlers {
			if sub, ok := handler.(*caddyhttp.Subroute); !ok || apply(sub.Routes, r) {
				return true
			}
		}
	}
	return false
}
