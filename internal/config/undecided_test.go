package config

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// While the store is away and nobody counts, what passes was not allowed by a limit and what
// is refused not refused by one: metrics say so, and clients are told no numbers. Limits
// that a node enforces by itself are limits.
func TestNobodyCounts(t *testing.T) {
	const zones = `"rate_limits": {
		"a": {"key": "x", "max_events": 1, "window": "1h"},
		"dry": {"key": "x", "max_events": 1, "window": "1h", "dry_run": true}}}`
	for word, want := range map[string]struct {
		seen    string
		allowed bool
		nearest bool
		reason  string
	}{
		local: {"a allowed, dry allowed | a refused (blamed), dry dry_refused", false, true, ""},
		allow: {"a store_error, dry store_error | a store_error, dry store_error", true, false, ""},
		deny:  {"a store_error (blamed), dry store_error | a store_error (blamed), dry store_error", false, false, noStore},
	} {
		t.Run(word, func(t *testing.T) {
			s := build(t, nowhere)
			m := s.meter(t, `{"on_store_error": "`+word+`", `+zones)
			var seen outcomes
			s.Observers = observe.Observers{&seen}
			m.read(t)
			first := strings.Join(seen, ", ")
			seen = nil
			d, err := m.Read(from("203.0.113.1", "/"))
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free(d)
			if got := first + " | " + strings.Join(seen, ", "); got != want.seen {
				t.Errorf("seen %s, want %s", got, want.seen)
			}
			if d.Allowed != want.allowed || d.Nearest >= 0 != want.nearest || d.Blamed >= 0 != want.nearest || d.Reason != want.reason {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// A request that costs nothing is not refused for want of a store either.
func TestWhatCostsNothingPasses(t *testing.T) {
	m := build(t, nowhere).meter(t, `{"on_store_error": "deny", "rate_limits": {
		"a": {"key": "x", "max_events": 1, "window": "1h", "cost": "{http.request.header.X-Cost}"}}}`)
	for cost, want := range map[string]int64{"0": unlimited, "1": refused} {
		if got := spend(t, m, from("203.0.113.1", "/", "X-Cost", cost)); got != want {
			t.Errorf("cost %s: %d, want %d", cost, got, want)
		}
	}
}

// What error pages show is what Retry-After says: one random draw a refusal.
func TestOneJitter(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"jitter": 1, "rate_limits": {"api": {"key": "x", "max_events": 1, "window": "1h"}}}`)
	m.read(t)
	longer := false
	for range 50 {
		r := from("203.0.113.1", "/")
		d, err := m.Read(r)
		if err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		m.Explain(r, d)
		want := int64((d.Wait-1)/time.Second) + 1
		longer = longer || d.Wait > time.Hour
		if real := d.Results[d.Blamed].Wait; d.Wait < real {
			t.Errorf("wait %s is shorter than %s", d.Wait, real)
		}
		m.Free(d)
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		if got, _ := repl.Get("http.rate_limit.exceeded.wait"); got != want {
			t.Errorf("placeholder says %v, Retry-After %d", got, want)
		}
	}
	if !longer {
		t.Error("no wait was lengthened")
	}
}

// A request that is refused for want of a key is told so, and no wait.
func TestRejectedReason(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"user": {
		"key": "{http.request.header.X-Key}", "max_events": 9, "window": "1h", "on_empty_key": "reject"}}}`)
	d, err := m.Read(from("203.0.113.1", "/"))
	if err != nil {
		t.Fatal(err)
	}
	if d.Allowed || d.Reason != noKey || d.Wait != 0 {
		t.Errorf("got %+v", d)
	}
	m.Free(d)
	if d, err = m.Read(from("203.0.113.1", "/", "X-Key", "k")); err != nil || d.Reason != "" {
		t.Errorf("reason %q is left of an earlier request (%v)", d.Reason, err)
	}
	if d.Wait == limiter.Never {
		t.Error("an allowed request waits")
	}
	m.Free(d)
}
