package config

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// Row L46: a request is counted when it enters. Of a thousand that are all under way before
// the first of them is answered, five pass.
func TestCountedAtEntry(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"entry": {"key": "x", "max_events": 5, "window": "1h"}}}`)
	var passed atomic.Int64
	var inside sync.WaitGroup
	answer := make(chan struct{})
	var done sync.WaitGroup
	for range 1000 {
		inside.Add(1)
		done.Go(func() {
			d, err := m.Read(from("203.0.113.1", "/"))
			inside.Done()
			if err != nil {
				t.Error(err)
				return
			}
			if d.Allowed {
				passed.Add(1)
			}
			<-answer
			m.Free(d)
		})
	}
	inside.Wait()
	if n := passed.Load(); n != 5 {
		t.Errorf("%d of 1000 at once passed, want 5", n)
	}
	close(answer)
	done.Wait()
}

// Row L56: a client that has gone away leaves no error behind and no half decision. It is
// counted like any other, and the store is not taken to be down.
func TestClientGone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	const zone = `{"rate_limits": {"gone": {"key": "x", "max_events": 3, "window": "1h"}}}`
	for name, app := range map[string]string{
		"memory": `{}`,
		"redis":  `{"redis": {"addresses": ["` + server.Addr() + `"], "timeout": "10s"}}`,
	} {
		m := build(t, app).meter(t, zone)
		for i, want := range []bool{true, true, true, false} {
			r := from("203.0.113.1", "/")
			ctx, hangUp := context.WithCancel(r.Context())
			hangUp()
			d, err := m.Read(r.WithContext(ctx))
			if err != nil {
				t.Fatalf("%s: request %d: %v", name, i, err)
			}
			if d.Allowed != want || len(d.Results) != 1 || d.Results[0].Origin != limiter.Exactly {
				t.Errorf("%s: request %d: allowed %t, %+v", name, i, d.Allowed, d.Results)
			}
			m.Free(d)
		}
	}
}

// Rows B01, B11, B23: who a client is, and what was decided about it, is taken neither from
// headers that look like ours nor from any other text that it sends.
func TestNothingIsTakenFromText(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"text": {"key": "{http.vars.client_ip}", "max_events": 1, "window": "1h",
		"exempt_ranges": ["192.0.2.123"], "exempt": [{"vars": {"trusted": ["yes"]}}]}}}`)
	forged := []string{
		"Http.vars.client_ip", "192.0.2.123", "Client_ip", "192.0.2.123", "Trusted", "yes", "Trusted_proxy", "true",
		"Http.rate_limit.exceeded.name", "none", "Http.block.rule", "none", "User-Agent", "x from 192.0.2.123",
		"X-Forwarded-For", "192.0.2.123", "Forwarded", "for=192.0.2.123", "X-Real-Ip", "192.0.2.123",
	}
	for i, want := range []int64{0, refused, refused} {
		if got := spend(t, m, from("203.0.113.1", "/?client_ip=192.0.2.123&trusted=yes", forged...)); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	// What the server itself knows does count.
	r := from("203.0.113.1", "/")
	caddyhttp.SetVar(r.Context(), "trusted", "yes")
	if got := spend(t, m, r); got != unlimited {
		t.Errorf("trusted by the server: %d, want %d", got, unlimited)
	}
	g := gateFrom(t, `{"rules": [{"name": "all", "path": ["/*"]}], "allow_ranges": ["192.0.2.123"]}`)
	r = gateRequest("GET", "/?allow=192.0.2.123")
	r.RemoteAddr = "203.0.113.1:80"
	for i := 0; i < len(forged); i += 2 {
		r.Header.Set(forged[i], forged[i+1])
	}
	if got, err := g.Match(r, gateNoon); err != nil || got.Rule != "all" {
		t.Errorf("block: %+v, %v", got, err)
	}
}

// Row B31: nothing is limited or blocked that the configuration does not name: health checks
// come and go as often as they like.
func TestNothingIsLimitedUnasked(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"api": {"key": "x", "max_events": 1, "window": "1h", "match": [{"path": ["/api/*"]}]}}}`)
	g := gateFrom(t, `{"rules": [{"name": "api", "path": ["/api/*"]}]}`)
	for range 6000 {
		r := from("203.0.113.1", "/health")
		if got := spend(t, m, r); got != unlimited {
			t.Fatalf("a health check is limited: %d", got)
		}
		if got, err := g.Match(r, gateNoon); err != nil || got.Rule != "" {
			t.Fatalf("a health check is blocked: %+v, %v", got, err)
		}
	}
}
