package config

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

var gateNoon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// gateFrom builds a block's JSON at noon.
func gateFrom(t testing.TB, text string) *Gate {
	t.Helper()
	b := blockFrom(t, text)
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	g, err := b.Build(ctx, gateNoon)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// gateRequest makes a request from 192.0.2.1 that Caddy's matchers can look at.
func gateRequest(method, url string) *http.Request {
	r := httptest.NewRequest(method, url, nil)
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	return r.WithContext(context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{}))
}

func TestGateMatch(t *testing.T) {
	post := Refusal{Rule: "post", Status: 403}
	const rule = `{"name": "post", "method": ["POST"]}`
	tests := []struct {
		name, block string
		want        Refusal
	}{
		{"no match", `{"rules": [{"name": "get", "method": ["GET"]}]}`, Refusal{}},
		{"match", `{"rules": [` + rule + `]}`, post},
		{"answer", `{"rules": [` + rule + `], "status": 404, "body": "gone"}`, Refusal{Rule: "post", Status: 404, Body: "gone"}},
		{"action", `{"rules": [{"name": "post", "method": ["POST"], "action": 410}], "status": 404}`, Refusal{Rule: "post", Status: 410}},
		{"off", `{"rules": [` + rule + `], "mode": "off", "allow_ranges": ["192.0.2.1"]}`, Refusal{}},
		{"dry run", `{"rules": [` + rule + `, {"name": "x", "path": ["/*"]}], "mode": "dry_run"}`, Refusal{DryRun: []string{"post", "x"}}},
		{"dry run of one", `{"rules": [{"name": "x", "path": ["/*"], "dry_run": true}]}`, Refusal{DryRun: []string{"x"}}},
		{"dry run comes last", `{"rules": [{"name": "x", "path": ["/*"], "dry_run": true}, ` + rule + `]}`, post},
		{"everything", `{"everything": true, "name": "@x"}`, Refusal{Rule: "@x", Status: 403}},
		{"everything in dry run", `{"everything": true, "mode": "dry_run"}`, Refusal{DryRun: []string{"everything"}}},
		{"everything off", `{"everything": true, "mode": "off"}`, Refusal{}},
		{"range", `{"ranges": ["192.0.2.0/24"], "rules": [` + rule + `]}`, Refusal{Rule: "ranges", Status: 403}},
		{"mapped range, B47", `{"ranges": ["::ffff:192.0.2.0/120"]}`, Refusal{Rule: "ranges", Status: 403}},
		{"other range", `{"ranges": ["198.51.100.0/24"]}`, Refusal{}},
		{"allowed range", `{"everything": true, "allow_ranges": ["192.0.2.0/24"]}`, Refusal{}}, // B26
		{"other allowed range", `{"everything": true, "allow_ranges": ["198.51.100.0/24"]}`, Refusal{Rule: "everything", Status: 403}},
		{"allowed by matcher", `{"rules": [` + rule + `], "allow": [{"path": ["/no"]}, {"path": ["/health"]}]}`, Refusal{}}, // L133, B31
		{"not allowed by matcher", `{"rules": [` + rule + `], "allow": [{"path": ["/no"]}]}`, post},
		{"ends today", `{"rules": [{"name": "post", "method": ["POST"], "expires": "1d"}]}`, Refusal{Rule: "post", Status: 403, RetryAfter: 24 * time.Hour}},
		{
			"ends at a time", `{"rules": [{"name": "post", "method": ["POST"], "expires": "2026-11-30T13:00:05+01:00"}]}`,
			Refusal{Rule: "post", Status: 403, RetryAfter: 5 * time.Second},
		},
		{"ends later", `{"rules": [{"name": "post", "method": ["POST"], "expires": "25h"}]}`, post},
		{"has ended, B08", `{"rules": [{"name": "post", "method": ["POST"], "expires": "2026-11-30T12:00:00Z"}]}`, Refusal{}},
		{"abort", `{"rules": [{"name": "post", "method": ["POST"], "action": "abort"}]}`, Refusal{Rule: "post", Action: blocklist.Abort, Status: 403}},
		{
			"tarpit", `{"rules": [{"name": "post", "method": ["POST"], "action": "tarpit"}], "status": 404, "body": "gone"}`,
			Refusal{Rule: "post", Action: blocklist.Tarpit, Status: 404, Body: "gone"},
		},
		{"mark", `{"rules": [{"name": "x", "path": ["/*"], "action": "mark", "expires": "1h"}]}`, Refusal{Rule: "x", Action: blocklist.Mark}},
		{"mark goes after what refuses", `{"rules": [{"name": "x", "path": ["/*"], "action": "mark"}, ` + rule + `]}`, post},
		{
			"mark and dry runs", `{"rules": [{"name": "x", "path": ["/*"], "action": "mark"}, {"name": "y", "path": ["/*"], "action": "mark", "dry_run": true},
				{"name": "z", "path": ["/*"], "action": "abort", "dry_run": true}]}`,
			Refusal{Rule: "x", Action: blocklist.Mark, DryRun: []string{"z"}, DryMarked: []string{"y"}},
		},
		{"mark in a dry block", `{"rules": [{"name": "x", "path": ["/*"], "action": "mark"}], "mode": "dry_run"}`, Refusal{DryMarked: []string{"x"}}},
		{"placeholders stay", `{"rules": [{"name": "x", "method": ["{http.request.method}"]}]}`, Refusal{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := gateFrom(t, tt.block).Match(gateRequest("POST", "/health"), gateNoon)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The duration of a rule counts from load, and ends while the gate serves (row L125).
func TestGateMatchAfterTheEnd(t *testing.T) {
	g := gateFrom(t, `{"rules": [{"name": "x", "path": ["/*"], "expires": "10m"}]}`)
	for after, want := range map[time.Duration]Refusal{
		10*time.Minute - 1: {Rule: "x", Status: 403, RetryAfter: 1},
		10 * time.Minute:   {},
	} {
		if got, _ := g.Match(gateRequest("GET", "/"), gateNoon.Add(after)); !reflect.DeepEqual(got, want) {
			t.Errorf("after %s: got %+v, want %+v", after, got, want)
		}
	}
}

// A matcher that cannot tell yet (TLS early data) is not a refusal, nor a pass.
func TestGateMatchPassesErrorsOn(t *testing.T) {
	g := gateFrom(t, `{"everything": true, "allow": [{"remote_ip": {"ranges": ["10.0.0.0/8"]}}]}`)
	r := gateRequest("GET", "/")
	r.TLS = &tls.ConnectionState{HandshakeComplete: false}
	got, err := g.Match(r, gateNoon)
	var handled caddyhttp.HandlerError
	if !errors.As(err, &handled) || handled.StatusCode != http.StatusTooEarly || !reflect.DeepEqual(got, Refusal{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Everything a rule may look at, once through the whole way. Row B40 and the ways to
// write a path that should not dodge a rule.
func TestGateFields(t *testing.T) {
	for field, pattern := range map[string]string{
		"host": `["EXAMPLE.com"]`, "url": `["*%2Fx?a=1"]`, "path": `["/admin*"]`, "query": `"a=*"`, "method": `["get"]`,
		"client_ip": `["192.0.2.1"]`, "user_agent": `["*BOT*"]`, "header": `{"x-a": ["two"]}`,
	} {
		g := gateFrom(t, fmt.Sprintf(`{"rules": [{"name": "x", %q: %s}]}`, field, pattern))
		r := gateRequest("GET", "http://example.com./x/..//%61dmin%0Ax%2Fx?a=1")
		r.Header = http.Header{"User-Agent": {"Robot"}, "X-A": {"one", "two"}}
		if got, err := g.Match(r, gateNoon); err != nil || got.Rule != "x" {
			t.Errorf("%s: got %+v, %v", field, got, err)
		}
		other := gateRequest("PUT", "http://other.example/y/admin")
		other.RemoteAddr = "192.0.2.2:80"
		other.Header = http.Header{"User-Agent": {"Browser"}, "X-A": {"TWO"}}
		if got, err := g.Match(other, gateNoon); err != nil || got.Rule != "" {
			t.Errorf("%s, another request: got %+v, %v", field, got, err)
		}
	}
}

// Row B32, B20: the client's address is what the server says, not what a header says.
func TestGateUsesTheOneResolver(t *testing.T) {
	g := gateFrom(t, `{"ranges": ["198.51.100.7"]}`)
	r := gateRequest("GET", "/")
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	if got, _ := g.Match(r, gateNoon); got.Rule != "" {
		t.Errorf("believes the header: %+v", got)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "::ffff:198.51.100.7")
	if got, _ := g.Match(r, gateNoon); got.Rule != "ranges" {
		t.Errorf("does not believe the server: %+v", got)
	}
}

func TestGateAllocatesNothing(t *testing.T) {
	g := gateFrom(t, gateRules())
	r := gateRequest("GET", "http://example.com/feed.xml?a=1")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0)")
	// A pool may be emptied between two requests: the least of several tries counts.
	least := 1.0
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, func() {
			if got, err := g.Match(r, gateNoon); err != nil || got.Rule != "" {
				t.Errorf("got %+v, %v", got, err)
			}
		}))
	}
	if least > 0 {
		t.Errorf("%v allocations", least)
	}
}

// gateRules is the JSON of a block with a hundred rules and addresses.
func gateRules() string {
	var rules, ranges []string
	for i := range 100 {
		rules = append(rules, fmt.Sprintf(`{"name": "path %d", "path": ["/old/%d/*"], "user_agent": ["*bot%d*"]}`, i, i, i))
		ranges = append(ranges, fmt.Sprintf(`"198.51.100.%d"`, i))
	}
	return `{"rules": [` + strings.Join(rules, ",") + `], "ranges": [` + strings.Join(ranges, ",") + `], "allow_ranges": ["10.0.0.0/8"]}`
}

func BenchmarkGate(b *testing.B) {
	g := gateFrom(b, gateRules())
	r := gateRequest("GET", "http://example.com/feed.xml?a=1")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0)")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Match(r, gateNoon); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOff measures a gate that looks at nothing, by its own mode and by that of the shared list.
func BenchmarkOff(b *testing.B) {
	own := &Gate{off: true}
	shared := &Gate{shared: new(List)}
	shared.shared.snapshot.Store(&blocklist.Snapshot{Mode: blocklist.Off})
	for name, g := range map[string]*Gate{"own": own, "shared": shared} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !g.Off() {
					b.Fatal("looks")
				}
			}
		})
	}
}
