package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// rateLimit reads a handler's JSON.
func rateLimit(t *testing.T, text string) *RateLimit {
	t.Helper()
	h := new(RateLimit)
	if err := json.Unmarshal([]byte(text), h); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return h
}

func TestRateLimitValidate(t *testing.T) {
	// zone puts one zone's JSON into a handler.
	zone := func(fields string) string { return `{"rate_limits": {"api": {"key": "x", ` + fields + `}}}` }
	for _, test := range []struct {
		name, config string
		problems     []string // one a line of the error; none if it is valid
	}{
		{"plain", zone(`"max_events": 10, "window": "1m"`), nil},
		{"limits", zone(`"limits": [{"events": 1, "window": "1s"}, {"events": 20, "window": "1h", "algorithm": "token_bucket", "burst": 30}]`), nil},
		{"interval only", zone(`"min_interval": "1s"`), nil},
		{"nothing", `{}`, []string{"must have a zone"}},
		{"null zone", `{"rate_limits": {"api": null}}`, []string{`zone "api": must not be null`}},
		{"no limit", zone(`"algorithm": "fixed_window"`), []string{`zone "api": must have a limit: limit (in JSON limits), events with window (max_events), min_interval or in_flight`}},
		// L62, and what crashed the best-known limiter on each request.
		{"no events", zone(`"max_events": 0, "window": "1m"`), []string{`zone "api": events: must be at least 1, got 0`}},
		{"negative events", zone(`"limits": [{"events": -1, "window": "1m"}]`), []string{`zone "api": limits[0]: events: must be at least 1, got -1`}},
		// L67.
		{"no window", zone(`"max_events": 5`), []string{`zone "api": window: is missing`}},
		{
			"negative window", zone(`"limits": [{"events": 1, "window": "1s"}, {"events": 5, "window": "-1m"}]`),
			[]string{`zone "api": limits[1]: window: must be positive, got -1m0s`},
		},
		{"window without events", zone(`"window": "1m"`), []string{`zone "api": events: is missing, which window belongs to (in JSON max_events)`}},
		{"negative interval", zone(`"min_interval": "-1s"`), []string{`zone "api": min_interval: window: must be positive, got -1s`}},
		{"in flight only", zone(`"in_flight": 20`), nil},
		{"in flight beside others", zone(`"in_flight": 1, "max_events": 1, "window": "1s", "min_interval": "1s", "count_rejected": "1h", "cost": 1`), nil},
		{"negative in flight", zone(`"in_flight": -1`), []string{`zone "api": in_flight: events: must be at least 1, got -1`}},
		{"too many in flight", zone(`"in_flight": 10001`), []string{`zone "api": in_flight: events: in_flight counts at most 10000 requests at a time, got 10001`}},
		{
			"in flight as a way of counting", zone(`"limits": [{"events": 1, "window": "1m", "algorithm": "in_flight"}]`),
			[]string{`zone "api": limits[0]: algorithm: must be sliding_window, sliding_log, sliding_counter, token_bucket or fixed_window, got "in_flight"`},
		},
		{
			"rejected in flight", zone(`"in_flight": 1, "count_rejected": "1h"`),
			[]string{`zone "api": count_rejected: means nothing to in_flight, which is the zone's only limit`},
		},
		{
			"algorithm", zone(`"max_events": 5, "window": "1m", "algorithm": "leaky"`),
			[]string{`zone "api": algorithm: must be sliding_window, sliding_log, sliding_counter, token_bucket or fixed_window, got "leaky"`},
		},
		{
			"written twice", zone(`"max_events": 5, "window": "1m", "limits": [{"events": 5, "window": "60s"}]`),
			[]string{`zone "api": limits[0] (5/1m): is written twice`},
		},
		{
			"burst of a window", zone(`"limits": [{"events": 5, "window": "1m", "burst": 9}]`),
			[]string{`zone "api": limits[0]: burst: only the algorithm token_bucket has one, not sliding_window`},
		},
		{
			"burst of no limit", zone(`"max_events": 5, "window": "1m", "burst": 9`),
			[]string{`zone "api": burst: only the algorithm token_bucket has one`},
		},
		{
			"ceiling", zone(`"max_events": 5, "window": "1h", "count_rejected": "1m"`),
			[]string{`zone "api": count_rejected: must not be shorter than the window of 1h, got 1m`},
		},
		{
			"cost above the limit", zone(`"max_events": 5, "window": "1h", "cost": 6`),
			[]string{`zone "api": cost: is above the events of 5/1h: no request could ever pass, got 6`},
		},
		{
			"cost above the burst", zone(`"limits": [{"events": 9, "window": "1h", "algorithm": "token_bucket", "burst": 2}], "cost": 3`),
			[]string{`zone "api": cost: is above the burst of limits[0] (9/1h): no request could ever pass, got 3`},
		},
		{"cost beside an interval", zone(`"max_events": 5, "window": "1h", "min_interval": "1s", "cost": 5`), nil},
		{
			"prefixes", zone(`"max_events": 5, "window": "1h", "ipv4_prefix": 33, "ipv6_prefix": -1`),
			[]string{`zone "api": ipv4_prefix: must be between 1 and 32, got 33`, `zone "api": ipv6_prefix: must be between 1 and 128, got -1`},
		},
		{
			"empty key", zone(`"max_events": 5, "window": "1h", "on_empty_key": "pass"`),
			[]string{`zone "api": on_empty_key: must be skip, client_ip or reject, got "pass"`},
		},
		{
			"exempt", zone(`"max_events": 5, "window": "1h", "exempt_ranges": ["10.0.0.0/8", "10.0.0.0/40"]`),
			[]string{`zone "api": exempt_ranges: "10.0.0.0/40": must have a length from 0 to 32 after the slash`},
		},
		{
			"placeholder", `{"rate_limits": {"api": {"key": "{http.request.remote_ip}", "max_events": 1, "window": "1s"}}}`,
			[]string{`zone "api": key: unknown placeholder {http.request.remote_ip}: did you mean {http.request.remote.host} or {http.vars.client_ip}?`},
		},
		{
			"name", `{"rate_limits": {"a\nb": {"key": "x", "max_events": 1, "window": "1s"}}}`,
			[]string{`zone "a\nb": name must be printable, has '\n'`},
		},
		{"no name", `{"rate_limits": {"": {"key": "x", "max_events": 1, "window": "1s"}}}`, []string{`zone "": must have a name`}},
		{
			"all of the handler's", `{"rate_limits": {"api": {"key": "x", "max_events": 1, "window": "1s"}},
			"status": 200, "jitter": 2, "headers": "all", "on_store_error": "fail", "message": "{http.request.foo}"}`,
			[]string{
				`status: must be between 400 and 599, got 200`,
				`jitter: must be between 0 and 1, got 2`,
				`headers: must be legacy, draft, both or off, got "all"`,
				`on_store_error: must be local, allow or deny, got "fail"`,
				`message: unknown placeholder {http.request.foo}`,
			},
		},
		// Every problem is told at once, zones in the order of their names.
		{
			"several zones", `{"rate_limits": {"b": {"window": "1s", "max_events": 0}, "a": {}}}`,
			[]string{
				`zone "a": must have a limit: limit (in JSON limits), events with window (max_events), min_interval or in_flight`,
				`zone "b": events: must be at least 1, got 0`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			if err := rateLimit(t, test.config).Validate(); err != nil {
				got = err.Error()
			}
			if want := strings.Join(test.problems, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestRateLimitWarnings(t *testing.T) {
	zone := func(fields string) string { return `{"rate_limits": {"api": {` + fields + `}}}` }
	const unbound = "this limit can never bind: another limit of its zone always does first"
	for _, test := range []struct {
		name, config string
		warnings     []string
	}{
		{"none", zone(`"key": "x", "max_events": 10, "window": "1m"`), nil},
		{
			"no key", zone(`"max_events": 10, "window": "1m"`),
			[]string{`zone "api": a zone without a key is one budget for all clients together`},
		},
		{
			"same window", zone(`"key": "x", "limits": [{"events": 10, "window": "1s"}, {"events": 1000, "window": "1s"}]`),
			[]string{`zone "api": limits[1] (1000/1s): ` + unbound},
		},
		{
			"implied by a shorter one", zone(`"key": "x", "limits": [{"events": 100, "window": "1m"}, {"events": 10000, "window": "1h"}]`),
			[]string{`zone "api": limits[1] (10000/1h): ` + unbound},
		},
		{"both bind", zone(`"key": "x", "limits": [{"events": 10, "window": "1s"}, {"events": 100, "window": "1m"}, {"events": 1000, "window": "1h"}]`), nil},
		{"fixed windows may meet", zone(`"key": "x", "algorithm": "fixed_window", "limits": [{"events": 10, "window": "1s"}, {"events": 15, "window": "1s", "algorithm": "sliding_log"}]`), nil},
		{
			"bucket beside a window", zone(`"key": "x", "limits": [{"events": 5, "window": "1s"}, {"events": 10, "window": "1s", "algorithm": "token_bucket"}]`),
			[]string{`zone "api": limits[1] (10/1s): ` + unbound},
		},
		{
			"interval", zone(`"key": "x", "max_events": 100, "window": "1m", "min_interval": "1s"`),
			[]string{`zone "api": 100/1m: ` + unbound},
		},
		{"interval and costs", zone(`"key": "x", "max_events": 100, "window": "1m", "min_interval": "1s", "cost": 2`), nil},
		{
			"two ways of the same", zone(`"key": "x", "max_events": 5, "window": "1m", "limits": [{"events": 5, "window": "1m", "algorithm": "sliding_log"}]`),
			[]string{`zone "api": limits[0] (5/1m): ` + unbound},
		},
		{
			"exempt", zone(`"key": "x", "max_events": 5, "window": "1m", "exempt_ranges": ["0.0.0.0/0", "::/0"]`),
			[]string{`zone "api": this zone can never apply: every request is exempt`},
		},
		{
			"distributed", `{"distributed": {}, "rate_limits": {"api": {"key": "x", "max_events": 5, "window": "1m"}}}`,
			[]string{`distributed: each instance counts for itself until the global options name a Redis that they share`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport()
			rateLimit(t, test.config).check(r, new(App))
			if err := r.err(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range r.warnings {
				got = append(got, w.path+": "+w.message)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(test.warnings, "\n"); g != w {
				t.Errorf("got:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

func TestLimitNumbers(t *testing.T) {
	h := rateLimit(t, `{"rate_limits": {"api": {"key": "x",
		"max_events": 7, "window": "1h", "min_interval": "1s", "count_rejected": "24h",
		"limits": [
			{"events": 9, "window": "1m"},
			{"events": 5, "window": "1s", "algorithm": "token_bucket"},
			{"events": 7, "window": "1m", "algorithm": "sliding_log"},
			{"events": 8, "window": "1m"}
		]}}}`)
	limits := h.Zones["api"].limits("api")
	number(limits)
	got := make(map[string]int)
	for _, l := range limits {
		got[l.Algorithm+" "+describe(l)] = l.Index
		if l.Zone != "api" || l.Ceiling.Hours() != 24 {
			t.Errorf("%s: zone %q, ceiling %s", describe(l), l.Zone, l.Ceiling)
		}
	}
	for name, want := range map[string]int{
		"sliding_window limits[3] (8/1m)": 2,
		"sliding_window limits[0] (9/1m)": 1,
		"sliding_window 7/1h":             0,
		"sliding_log limits[2] (7/1m)":    0,
		"token_bucket limits[1] (5/1s)":   0,
		"min_interval min_interval (1s)":  0,
	} {
		if index, ok := got[name]; !ok || index != want {
			t.Errorf("%s: index %d, %t, want %d", name, index, ok, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("limits: %v", got)
	}
}
