package config

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/limiter"
)

func TestCostOfConstant(t *testing.T) {
	for _, c := range []struct {
		text    Cost
		want    int64
		problem string
	}{
		{"", 1, ""},
		{"1", 1, ""},
		{"20", 20, ""},
		{"1000000000", limiter.MaxEvents, ""},
		{"0", 0, "cost: must be between 1 and 1000000000, got 0"},
		{"-3", 0, "cost: must be between 1 and 1000000000, got -3"},
		{"1000000001", 0, "cost: must be between 1 and 1000000000, got 1000000001"},
		{"1.5", 0, `cost: must be a whole number or a placeholder, got "1.5"`},
		{"two", 0, `cost: must be a whole number or a placeholder, got "two"`},
		{"99999999999999999999", 0, "cost: must be a whole number"},
		{"{http.request.cost}", 0, "cost: unknown placeholder {http.request.cost}"},
		{"{http.vars.cost", 0, "cost: opening brace"},
	} {
		r := newReport()
		cost := compileCost(r.in("cost"), c.text)
		err := r.err()
		if c.problem != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.problem) {
				t.Errorf("%q: got %v, want %s", c.text, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if got, _ := cost.of(request("/"), ClientIP(request("/"))); got != c.want {
			t.Errorf("%q: got %d, want %d", c.text, got, c.want)
		}
	}
}

func TestCostOfPlaceholder(t *testing.T) {
	r := newReport()
	cost := compileCost(r.in("cost"), "{http.vars.cost}")
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value any
		want  int64
	}{
		{"5", 5},
		{7, 7},
		{"0", 0},
		{"007", 7},
		{nil, 1},
		{"", 1},
		{"much", 1},
		{"-5", 1},
		{-5, 1},
		{"+5", 1},
		{"1.5", 1},
		{2.5, 1},
		{"5 ", 1},
		{"1e3", 1},
		{"٣", 1},
		{"1000000001", limiter.MaxEvents},
		{strings.Repeat("9", 400), 1},
		{strings.Repeat("9", 40), limiter.MaxEvents},
	} {
		req := request("/")
		caddyhttp.SetVar(req.Context(), "cost", c.value)
		if got, _ := cost.of(req, ClientIP(req)); got != c.want {
			t.Errorf("%v: got %d, want %d", c.value, got, c.want)
		}
	}
}

func TestCostAllocatesNothing(t *testing.T) {
	r := newReport()
	cost := compileCost(r, "{http.vars.cost}")
	req := request("/")
	caddyhttp.SetVar(req.Context(), "cost", "12")
	client := ClientIP(req)
	if n := testing.AllocsPerRun(100, func() { cost.of(req, client) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A cost that the client chooses is no limit.
func TestLintCost(t *testing.T) {
	for text, want := range map[Cost]string{
		"":                              "",
		"{http.vars.cost}":              "",
		"{http.request.header.X-Cost}":  "{http.request.header.X-Cost} is whatever the client sends: one that says 0 is never refused",
		"{http.request.uri.query.cost}": "{http.request.uri.query.cost} is whatever the client sends: one that says 0 is never refused",
	} {
		r := newReport()
		compileCost(r, text)
		got := ""
		for _, w := range r.warnings {
			got += w.message
		}
		if got != want || r.err() != nil {
			t.Errorf("%q: got %q and %v, want %q", text, got, r.err(), want)
		}
	}
}
