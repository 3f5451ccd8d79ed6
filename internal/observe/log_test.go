package observe

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// request returns a request that came through a trusted proxy.
func request() *http.Request {
	r := httptest.NewRequest("POST", "https://example.com/feed?token=secret", nil)
	r.RemoteAddr = "192.0.2.1:1234"
	r.Header.Set("Authorization", "secret")
	vars := map[string]any{caddyhttp.ClientIPVarKey: "203.0.113.9"}
	return r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
}

var limit = limiter.Limit{Zone: "api", Algorithm: limiter.SlidingWindow, Events: 5, Window: time.Minute}

// refusal returns the outcome of a refused request.
func refusal(z *Zone) Outcome {
	return Outcome{
		Request: request(), Kind: Refused, Zone: z, Limit: &limit, Key: "secret", Blamed: true,
		Result: limiter.Result{Wait: 3 * time.Second, Origin: limiter.Local},
	}
}

func TestLogFields(t *testing.T) {
	base := map[string]any{
		"method": "POST", "host": "example.com", "path": "/feed", "remote_ip": "192.0.2.1", "client_ip": "203.0.113.9",
	}
	numbers := map[string]any{
		"zone": "api", "algorithm": "sliding_window", "events": int64(5), "window": time.Minute, "origin": "local",
	}
	with := func(sets ...map[string]any) map[string]any {
		all := map[string]any{}
		for _, s := range sets {
			maps.Copy(all, s)
		}
		return all
	}
	zone := func(change func(*Outcome)) Outcome {
		o := refusal(NewZone("api"))
		change(&o)
		return o
	}
	tests := []struct {
		name    string
		outcome Outcome
		message string // empty: no line
		fields  map[string]any
	}{
		{
			"zone", zone(func(*Outcome) {}), "rate limit exceeded",
			with(base, numbers, map[string]any{"wait": 3 * time.Second}),
		},
		{
			"with its key", zone(func(o *Outcome) { o.LogKey = true }), "rate limit exceeded",
			with(base, numbers, map[string]any{"wait": 3 * time.Second, "key": "secret"}),
		},
		{
			"with its key's hash", zone(func(o *Outcome) { o.Hasher = limiter.NewHasher([]byte("x")) }), "rate limit exceeded",
			with(base, numbers, map[string]any{"wait": 3 * time.Second, "key_hash": limiter.NewHasher([]byte("x")).String("secret")}),
		},
		{
			"a share of it", zone(func(o *Outcome) { o.Result.Max = 2 }), "rate limit exceeded",
			with(base, numbers, map[string]any{"wait": 3 * time.Second, "share": int64(2)}),
		},
		{
			// It is no quota, and its window is an affair of ours.
			"in flight", zone(func(o *Outcome) {
				o.Limit = &limiter.Limit{Zone: "api", Algorithm: limiter.InFlight, Events: 20, Window: time.Minute}
			}),
			"rate limit exceeded",
			with(base, map[string]any{
				"zone": "api", "algorithm": "in_flight", "events": int64(20), "origin": "local", "wait": 3 * time.Second,
			}),
		},
		{
			"dry run", zone(func(o *Outcome) { o.Kind = DryRefused }), "rate limit would be exceeded",
			with(base, numbers, map[string]any{"wait": 3 * time.Second, "dry_run": true}),
		},
		{
			"never", zone(func(o *Outcome) { o.Result.Wait = limiter.Never }), "rate limit exceeded",
			with(base, numbers),
		},
		{
			"rule",
			Outcome{Request: request(), Kind: Refused, Rule: NewRule("scrapers")},
			"request blocked",
			with(base, map[string]any{"rule": "scrapers"}),
		},
		{
			"a job",
			Outcome{
				Asked: &blocklist.Request{Source: blocklist.Job, Handler: "report.build", User: "ann", Args: []string{"secret"}},
				Kind:  Refused, Rule: NewRule("reports"),
			},
			"request blocked",
			map[string]any{"rule": "reports", "source": "job", "handler": "report.build", "user": "ann"},
		},
		{
			"dry run of a rule",
			Outcome{Request: request(), Kind: DryRefused, Rule: NewRule("scrapers")},
			"request would be blocked",
			with(base, map[string]any{"rule": "scrapers", "dry_run": true}),
		},
		{
			"aborted",
			Outcome{Request: request(), Kind: Aborted, Rule: NewRule("scrapers")},
			"request blocked",
			with(base, map[string]any{"rule": "scrapers", "outcome": "aborted"}),
		},
		{
			"tarpitted",
			Outcome{Request: request(), Kind: Tarpitted, Rule: NewRule("scrapers")},
			"request blocked",
			with(base, map[string]any{"rule": "scrapers", "outcome": "tarpitted"}),
		},
		{"marked", Outcome{Request: request(), Kind: Marked, Rule: NewRule("scrapers")}, "", nil},
		{"allowed", zone(func(o *Outcome) { o.Kind = Allowed }), "", nil},
		{"exempt", zone(func(o *Outcome) { o.Kind = Exempt }), "", nil},
		{"of nobody", Outcome{Request: request(), Kind: Refused}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			core, lines := observer.New(zapcore.InfoLevel)
			NewLog(zap.New(core)).Observe(tt.outcome)
			if tt.message == "" {
				if lines.Len() > 0 {
					t.Errorf("logged %v", lines.All())
				}
				return
			}
			if lines.Len() != 1 {
				t.Fatalf("%d lines", lines.Len())
			}
			line := lines.All()[0]
			if line.Message != tt.message || line.Level != zapcore.InfoLevel {
				t.Errorf("logged %s %q", line.Level, line.Message)
			}
			if got := line.ContextMap(); !maps.Equal(got, tt.fields) {
				t.Errorf("got  %v\nwant %v", got, tt.fields)
			}
			for name, value := range line.ContextMap() {
				if text, ok := value.(string); ok && strings.Contains(text, "secret") != (name == "key") {
					t.Errorf("field %s says %q", name, text)
				}
			}
		})
	}
}

func TestLogIsSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		l, a, b := NewLog(zap.New(core)), NewZone("a"), NewZone("b")
		flood := func(z *Zone, n int) (suppressed []int64) {
			for range n {
				l.Observe(refusal(z))
			}
			for _, line := range lines.TakeAll() {
				n, _ := line.ContextMap()["suppressed"].(int64)
				suppressed = append(suppressed, n)
			}
			return suppressed
		}
		if got := flood(a, 2500); !slices.Equal(got, []int64{0, 999, 999}) {
			t.Errorf("first second: %v", got)
		}
		if got := flood(b, 1); !slices.Equal(got, []int64{0}) {
			t.Errorf("another zone: %v", got)
		}
		<-time.After(time.Second)
		// 2,500 = 3 lines, 1,998 told already, 499 since.
		if got := flood(a, 1); !slices.Equal(got, []int64{499}) {
			t.Errorf("next second: %v", got)
		}
	})
}

// TestSamplerLosesNothing: whoever picks and whoever is passed over add up, whatever
// the order.
func TestSamplerLosesNothing(t *testing.T) {
	const workers, each = 8, 5000
	var s sampler
	var mu sync.Mutex
	var picked, skipped int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				n, ok := s.pick(time.Unix(int64(w*i/1000), 0))
				if ok {
					mu.Lock()
					picked, skipped = picked+1, skipped+n
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if total := picked + skipped + s.skipped.Load(); total != workers*each {
		t.Errorf("%d picked, %d skipped, %d pending: %d in all, want %d", picked, skipped, s.skipped.Load(), total, workers*each)
	}
}

func TestLogStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		l := NewLog(zap.New(core))
		l.StoreDown(errors.New("refused"))
		l.StoreUp(time.Minute)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { l.StoreFailed(errors.New("wrong type")) })
		}
		wg.Wait()
		<-time.After(failedInterval)
		l.StoreFailed(errors.New("wrong type"))
		l.StoreFailed(errors.New("wrong type"))

		var got []string
		for _, line := range lines.All() {
			got = append(got, line.Level.String()+" "+line.Message)
		}
		want := []string{"warn store unavailable", "info store available again", "warn store call failed", "warn store call failed"}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		if outage := lines.All()[1].ContextMap()["outage"]; outage != time.Minute {
			t.Errorf("outage of %v, want a minute", outage)
		}
		for i, want := range []int64{0, 7} {
			if n := lines.All()[2+i].ContextMap()["suppressed"]; n != want {
				t.Errorf("line %d: %v suppressed, want %d", i, n, want)
			}
		}
	})
}

// TestLogAllocations: lines that are passed over, and levels that are off, cost nothing.
func TestLogAllocations(t *testing.T) {
	o := refusal(NewZone("api"))
	core, _ := observer.New(zapcore.WarnLevel)
	quiet := NewLog(zap.New(core))
	if n := testing.AllocsPerRun(100, func() { quiet.Observe(o) }); n > 0 {
		t.Errorf("%v allocations with the level off, want none", n)
	}
	synctest.Test(t, func(t *testing.T) {
		core, _ := observer.New(zapcore.InfoLevel)
		l := NewLog(zap.New(core))
		if n := testing.AllocsPerRun(100, func() { l.Observe(o) }); n > 0 {
			t.Errorf("%v allocations for a line that is passed over, want none", n)
		}
	})
}

func BenchmarkLog(b *testing.B) {
	l, o := NewLog(zap.NewNop()), refusal(NewZone("benchmark"))
	b.Run("off", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Observe(o)
		}
	})
	core, _ := observer.New(zapcore.InfoLevel)
	l = NewLog(zap.New(core))
	b.Run("flood", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Observe(o)
		}
	})
}
