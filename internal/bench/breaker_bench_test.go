package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// BenchmarkOpenBreaker measures what a request costs while Redis is known to be away, through all
// handlers of a Caddy but without a network: the median and the 99th percentile of 10,000 requests, in
// microseconds, beside a Caddy that has no Redis and counts in memory, in turn. What is added is the breaker and the
// probes beside it, for the stand-in counts in memory as well.
func BenchmarkOpenBreaker(b *testing.B) {
	b.Setenv("XDG_DATA_HOME", b.TempDir())
	b.Cleanup(func() { _ = caddy.Stop() })
	redis := redistest.Start(b, redistest.Options{})
	const rounds = 5
	const requests = 10_000 / rounds
	var memory, away gauge.Delays
	for b.Loop() {
		for range rounds {
			serve := inProcess(b, "")
			rushInto(&memory, serve, requests)
			serve = inProcess(b, "redis "+redis.Addr())
			serve()
			redis.Kill()
			awaitOpen(b, serve)
			rushInto(&away, serve, requests)
			redis.Restart()
		}
	}
	for name, d := range map[string]*gauge.Delays{"memory": &memory, "away": &away} {
		b.ReportMetric(microseconds(d.Within(0.5)), name+"-p50-µs")
		b.ReportMetric(microseconds(d.Within(0.99)), name+"-p99-µs")
	}
	b.ReportMetric(microseconds(away.Within(0.99)-memory.Within(0.99)), "added-p99-µs")
	b.ReportMetric(0, "ns/op")
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// inProcess loads a Caddy with a limit that nobody reaches, and returns what has it serve a request of
// one client.
func inProcess(b *testing.B, redis string) func() {
	b.Helper()
	text := formatted(`{
	admin off
	persist_config off
	auto_https off
	log {
		output discard
	}
	weir {
		` + redis + `
	}
}
:80 {
	rate_limit {
		zone all {
			key {client_ip}
			limit ` + wide + `
		}
	}
	respond "hello"
}
`)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := caddy.Load(bytes.Replace(config, []byte(`"listen":[":80"],`), nil, 1), true); err != nil {
		b.Fatal(err)
	}
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		b.Fatal(err)
	}
	server := app.(*caddyhttp.App).Servers["srv0"]
	return func() {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatalf("answered %d: %s", w.Code, w.Body)
		}
	}
}

// awaitOpen has requests come until the breaker is open, as its metric says.
func awaitOpen(b *testing.B, serve func()) {
	b.Helper()
	active := caddy.ActiveContext()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		serve()
		families, err := active.GetMetricsRegistry().Gather()
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "caddy_weir_breaker_state" && f.GetMetric()[0].GetGauge().GetValue() == 2 {
				return
			}
		}
	}
	b.Fatal("the breaker did not open")
}

func rushInto(d *gauge.Delays, serve func(), requests int) {
	for range requests {
		start := time.Now()
		serve()
		d.Note(time.Since(start))
	}
}
