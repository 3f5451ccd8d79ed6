package config

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/observe"
)

// seenVar is the variable of a request that was offered to the sample already.
const seenVar = "weir_seen"

// Sample offers a request to the sample of recent ones, once however many block handlers it
// meets.
func (s *Shared) Sample(r *http.Request, now time.Time) observe.Mark {
	if len(s.gates) > 1 {
		if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
			if vars[seenVar] != nil {
				return observe.Mark{}
			}
			vars[seenVar] = true
		}
	}
	weight := observe.Recents.Pick(now)
	if weight == 0 {
		return observe.Mark{}
	}
	request := requestOf(r, ClientIP(r))
	return observe.Recents.Take(&request, now, weight)
}

// Sampled passes a request on and, if it is part of the sample, adds what became of it: the status,
// as far as Caddy keeps it, and who was signed in.
func Sampled(mark observe.Mark, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	err := next.ServeHTTP(w, r)
	if !mark.Taken() {
		return err
	}
	status := 0
	var failed caddyhttp.HandlerError
	if recorder, ok := w.(caddyhttp.ResponseRecorder); ok {
		status = recorder.Status()
	}
	if errors.As(err, &failed) && status == 0 {
		status = failed.StatusCode
	}
	user := ""
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		user, _ = repl.GetString("http.auth.user.id")
	}
	mark.End(status, user)
	return err
}
