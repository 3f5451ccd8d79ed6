package config

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// from is a request as a server would hand it to a handler; header are names and
// values in turn.
func from(client, path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = client + ":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
}

// spend is what is left of the nearest limit, or the wait of a refusal below zero.
func spend(t *testing.T, m *Meter, r *http.Request) int64 {
	t.Helper()
	d, err := m.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free(d)
	switch {
	case d.Allowed && d.Nearest >= 0:
		return d.Results[d.Nearest].Remaining
	case d.Allowed:
		return unlimited
	case d.Wait == limiter.Never:
		return never
	case d.Wait == 0:
		return unknown
	}
	return refused
}

const (
	unlimited = 1 << 40
	refused   = -1 // with a wait
	never     = -2
	unknown   = -3
)

func TestOnEmptyKey(t *testing.T) {
	type ask struct {
		client, key string
		want        int64
	}
	for word, asks := range map[string][]ask{
		// L71: not one bucket for all who have no key. Nobody gets at another's
		// budget by naming it.
		"client_ip": {
			{"203.0.113.1", "", 0},
			{"203.0.113.2", "", 0},
			{"203.0.113.1", "", refused},
			{"203.0.113.3", "203.0.113.2", 0},
			{"203.0.113.3", "203.0.113.2", refused},
		},
		"":       {{"203.0.113.1", "", 0}, {"203.0.113.2", "", 0}, {"203.0.113.1", "", refused}},
		"skip":   {{"203.0.113.1", "", unlimited}, {"203.0.113.1", "", unlimited}, {"203.0.113.1", "k", 0}},
		"reject": {{"203.0.113.1", "", unknown}, {"203.0.113.1", "k", 0}, {"203.0.113.1", "k", refused}},
	} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"empty`+word+`": {
			"key": "{http.request.header.X-Key}", "max_events": 1, "window": "1h", "on_empty_key": "`+word+`"}}}`)
		for i, a := range asks {
			var header []string
			if a.key != "" {
				header = []string{"X-Key", a.key}
			}
			if got := spend(t, m, from(a.client, "/", header...)); got != a.want {
				t.Errorf("%q: ask %d: %d, want %d", word, i, got, a.want)
			}
		}
	}
}

// A request that one zone rejects for want of a key is charged to no other.
func TestRejectChargesNothing(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {
		"all":  {"key": "x", "max_events": 1, "window": "1h"},
		"user": {"key": "{http.request.header.X-Key}", "max_events": 9, "window": "1h", "on_empty_key": "reject"}}}`)
	for range 3 {
		if got := spend(t, m, from("203.0.113.1", "/")); got != unknown {
			t.Errorf("without a key: %d, want %d", got, unknown)
		}
	}
	if got := spend(t, m, from("203.0.113.1", "/", "X-Key", "k")); got != 0 {
		t.Errorf("with a key: %d, want 0", got)
	}
}

func TestCost(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"cost": {"key": "x", "max_events": 10, "window": "1h", "min_interval": "1us",
		"cost": "{http.request.header.X-Cost}"}}}`)
	core, logs := observer.New(zap.WarnLevel)
	m.logger = zap.New(core)
	for _, ask := range []struct {
		cost string
		want int64
	}{
		// L35: what can never pass is not told to wait.
		{"11", never}, {"11", never}, {"7", 3}, {"nonsense", 2}, {"-5", 1}, {"0", 1}, {"2", refused},
	} {
		if got := spend(t, m, from("203.0.113.1", "/", "X-Cost", ask.cost)); got != ask.want {
			t.Errorf("cost %s: %d, want %d", ask.cost, got, ask.want)
		}
	}
	var got []string
	for _, entry := range logs.All() {
		got = append(got, entry.Message)
	}
	want := []string{
		"cost of a request is above its limit: it can never pass",
		"cost of a request is no whole number and counts as 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// An outcomes observer keeps what each zone said.
type outcomes []string

func (o *outcomes) Observe(outcome observe.Outcome) {
	words := outcome.Zone.Name + " " + outcome.Kind.String()
	if outcome.Blamed {
		words += " (blamed)"
	}
	*o = append(*o, words)
}

func TestOutcomes(t *testing.T) {
	s := build(t, `{}`)
	m := s.meter(t, `{"rate_limits": {
		"a": {"key": "x", "max_events": 1, "window": "1h", "match": [{"path": ["/a", "/ab"]}]},
		"b": {"key": "x", "max_events": 9, "window": "1h", "match": [{"path": ["/b", "/ab"]}], "exempt_ranges": ["192.0.2.0/24"]},
		"c": {"key": "x", "max_events": 1, "window": "1h", "match": [{"path": ["/c"]}], "dry_run": true},
		"d": {"key": "x", "max_events": 1, "window": "1h", "match": [{"path": ["/de"]}]},
		"e": {"key": "x", "max_events": 1, "window": "2h", "match": [{"path": ["/de"]}]}}}`)
	var seen outcomes
	s.Observers = observe.Observers{&seen}
	for _, step := range []struct{ client, path, want string }{
		{"203.0.113.1", "/", ""},
		{"203.0.113.1", "/ab", "a allowed, b allowed"},
		{"203.0.113.1", "/ab", "a refused (blamed)"}, // b has nothing to say: it is not charged
		{"192.0.2.1", "/b", "b exempt"},
		{"192.0.2.1", "/ab", "a refused (blamed), b exempt"},
		{"203.0.113.1", "/c", "c allowed"},
		{"203.0.113.1", "/c", "c dry_refused"},
		{"203.0.113.1", "/de", "d allowed, e allowed"},
		{"203.0.113.1", "/de", "d refused, e refused (blamed)"},
	} {
		seen = nil
		spend(t, m, from(step.client, step.path))
		if got := strings.Join(seen, ", "); got != step.want {
			t.Errorf("%s: %s, want %s", step.path, got, step.want)
		}
	}
	m.store = lost{}
	seen = nil
	spend(t, m, from("203.0.113.1", "/ab"))
	if got := strings.Join(seen, ", "); got != "a store_error, b store_error" {
		t.Errorf("lost: %s", got)
	}
}

// L121: the key itself is told to nobody.
func TestExplain(t *testing.T) {
	s := build(t, `{}`)
	m := s.meter(t, `{"rate_limits": {"api": {"key": "{http.vars.client_ip}", "max_events": 1, "window": "90m"}}}`)
	explain := func(client string) string {
		r := from(client, "/")
		d, err := m.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		m.Explain(r, d)
		m.Free(d) // the placeholders outlive the reading
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		return repl.ReplaceAll("{http.rate_limit.exceeded.name}|{http.rate_limit.exceeded.limit}|"+
			"{http.rate_limit.exceeded.window}|{http.rate_limit.exceeded.wait}|{http.rate_limit.exceeded.key_hash}", "-")
	}
	if got := explain("203.0.113.1"); got != "-|-|-|-|-" {
		t.Errorf("allowed: %s", got)
	}
	explain("203.0.113.2")
	first, again, other := explain("203.0.113.1"), explain("203.0.113.1"), explain("203.0.113.2")
	if want := "api|1|1h30m0s|5400|" + s.hasher.String("203.0.113.1"); first != want || again != want {
		t.Errorf("%s and %s, want %s", first, again, want)
	}
	if other == first {
		t.Errorf("two keys have one hash: %s", other)
	}
}

func TestMatchAndExempt(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"api": {
		"key": "{http.vars.client_ip}", "max_events": 1, "window": "1h",
		"match": [{"path": ["/api/*"]}],
		"exempt_ranges": ["192.0.2.0/24"],
		"exempt": [{"header": {"X-Probe": ["yes"]}}]}}}`)
	for _, test := range []struct {
		request *http.Request
		want    int64
	}{
		{from("203.0.113.1", "/"), unlimited},
		{from("192.0.2.9", "/api/x"), unlimited},
		{from("[::ffff:192.0.2.9]", "/api/x"), unlimited},
		{from("203.0.113.1", "/api/x", "X-Probe", "yes"), unlimited},
		{from("203.0.113.1", "/api/x"), 0},
		{from("203.0.113.1", "/api/x"), refused},
		{from("203.0.113.1", "/api/x", "X-Probe", "yes"), unlimited},
	} {
		if got := spend(t, m, test.request); got != test.want {
			t.Errorf("%s %s: %d, want %d", test.request.RemoteAddr, test.request.URL, got, test.want)
		}
	}
}

// What a matcher says of TLS early data is passed on, not swallowed.
func TestMatcherError(t *testing.T) {
	const early = `[{"remote_ip": {"ranges": ["10.0.0.0/8"]}}]`
	for _, field := range []string{"match", "exempt"} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"api": {"key": "x", "max_events": 1, "window": "1h", "`+field+`": `+early+`}}}`)
		r := from("203.0.113.1", "/")
		r.TLS = &tls.ConnectionState{HandshakeComplete: false}
		_, err := m.Read(r)
		var status caddyhttp.HandlerError
		if !errors.As(err, &status) || status.StatusCode != http.StatusTooEarly {
			t.Errorf("%s: error %v, want one with status %d", field, err, http.StatusTooEarly)
		}
	}
}
