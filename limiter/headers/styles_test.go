package headers

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// decision returns the decision about one ask.
func decision(l limiter.Limit, r limiter.Result) *limiter.Decision {
	d := &limiter.Decision{
		Allowed: r.Allowed, Blamed: -1,
		Asks: []limiter.Ask{{Limit: &l, Cost: 1}}, Results: []limiter.Result{r},
	}
	if !r.Allowed {
		d.Blamed = 0
	}
	if !l.HasQuota() {
		d.Nearest = -1
	}
	return d
}

func sliding(zone string, events int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Zone: zone, Algorithm: limiter.SlidingWindow, Events: events, Window: window}
}

// fields makes a header of pairs of names and values.
func fields(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func equal(a, b http.Header) bool { return maps.EqualFunc(a, b, slices.Equal) }

func TestParse(t *testing.T) {
	for _, s := range []Style{Off, Legacy, Draft, Both} {
		got, err := Parse(s.String())
		if err != nil || got != s {
			t.Errorf("Parse(%q) = %v, %v", s.String(), got, err)
		}
	}
	for _, word := range []string{"", "Both", "all"} {
		if got, err := Parse(word); err == nil || got != Off {
			t.Errorf("Parse(%q) = %v, %v, want an error", word, got, err)
		}
	}
}

func TestWrite(t *testing.T) {
	api := sliding("api", 100, time.Minute)
	left99 := limiter.Result{Allowed: true, Max: 100, Remaining: 99, Reset: time.Minute}
	tests := []struct {
		name   string
		style  Style
		limit  limiter.Limit
		result limiter.Result
		want   http.Header
	}{
		{
			name: "both", style: Both, limit: api, result: left99,
			want: fields(
				"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "99", "X-RateLimit-Reset", "60",
				"RateLimit-Policy", `"api";q=100;w=60`, "RateLimit", `"api";r=99;t=60`),
		},
		{
			name: "legacy", style: Legacy, limit: api, result: left99,
			want: fields("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "99", "X-RateLimit-Reset", "60"),
		},
		{
			name: "draft", style: Draft, limit: api, result: left99,
			want: fields("RateLimit-Policy", `"api";q=100;w=60`, "RateLimit", `"api";r=99;t=60`),
		},
		{name: "off", style: Off, limit: api, result: left99, want: fields()},
		{
			// L112: not 0, and not the whole window either.
			name: "a refusal says when one more passes", style: Both, limit: api,
			result: limiter.Result{Max: 100, Reset: time.Minute, Wait: 1200 * time.Millisecond},
			want: fields(
				"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2",
				"RateLimit-Policy", `"api";q=100;w=60`, "RateLimit", `"api";r=0;t=2`),
		},
		{
			// L35
			name: "a cost above the limit never passes", style: Draft, limit: api,
			result: limiter.Result{Max: 100, Remaining: 40, Reset: 30 * time.Second, Wait: limiter.Never},
			want:   fields("RateLimit-Policy", `"api";q=100;w=60`, "RateLimit", `"api";r=40;t=30`),
		},
		{
			name: "a minimum interval has no quota", style: Both,
			limit:  limiter.Limit{Zone: "api", Algorithm: limiter.MinInterval, Events: 1, Window: time.Second},
			result: limiter.Result{Max: 1, Wait: time.Second}, want: fields(),
		},
		{
			name: "a token bucket's window is the time it fills in", style: Draft,
			limit: limiter.Limit{
				Zone: "b", Algorithm: limiter.TokenBucket, Events: 10, Window: time.Second, Burst: 25,
			},
			result: limiter.Result{Allowed: true, Max: 25, Remaining: 24, Reset: 100 * time.Millisecond},
			want:   fields("RateLimit-Policy", `"b";q=25;w=3`, "RateLimit", `"b";r=24;t=1`),
		},
		{
			name: "a window below a second", style: Draft, limit: sliding("b", 3, time.Millisecond),
			result: limiter.Result{Allowed: true, Max: 3, Remaining: 3},
			want:   fields("RateLimit-Policy", `"b";q=3;w=1`, "RateLimit", `"b";r=3;t=0`),
		},
		{
			// L122
			name: "out of bounds", style: Both, limit: sliding("b", 3, time.Second),
			result: limiter.Result{Allowed: true, Max: 3, Remaining: 4, Reset: -1},
			want: fields(
				"X-RateLimit-Limit", "3", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "0",
				"RateLimit-Policy", `"b";q=3;w=1`, "RateLimit", `"b";r=3;t=0`),
		},
		{
			// L122
			name: "below zero", style: Legacy, limit: sliding("b", 3, time.Second),
			result: limiter.Result{Max: 3, Remaining: -2, Wait: math.MaxInt64 - 1},
			want: fields(
				"X-RateLimit-Limit", "3", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9223372037"),
		},
		{
			// L59: a billion years are more than 64 bits of nanoseconds.
			name: "the slowest bucket", style: Draft,
			limit: limiter.Limit{
				Zone: "b", Algorithm: limiter.TokenBucket, Events: 1, Window: limiter.MaxWindow, Burst: limiter.MaxEvents,
			},
			result: limiter.Result{Allowed: true, Max: limiter.MaxEvents, Remaining: 1, Reset: math.MaxInt64},
			want:   fields("RateLimit-Policy", `"b";q=1000000000;w=9223372037`, "RateLimit", `"b";r=1;t=9223372037`),
		},
		{
			// L121: a name cannot end its string, nor the field.
			name: "names are escaped", style: Draft, limit: sliding("a\"b\\c\r\nX: 1;é", 1, time.Second),
			result: limiter.Result{Allowed: true, Max: 1, Remaining: 1},
			want: fields(
				"RateLimit-Policy", `"a\"b\\c%0D%0AX: 1;%C3%A9";q=1;w=1`,
				"RateLimit", `"a\"b\\c%0D%0AX: 1;%C3%A9";r=1;t=0`),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			Write(h, tt.style, decision(tt.limit, tt.result))
			if !equal(h, tt.want) {
				t.Errorf("got  %v\nwant %v", h, tt.want)
			}
		})
	}
}

// TestWriteNearest: L113, all numbers come from one of the two limits.
func TestWriteNearest(t *testing.T) {
	second, hour := sliding("api", 5, time.Second), sliding("api", 100, time.Hour)
	d := &limiter.Decision{
		Nearest: 1, Blamed: 1,
		Asks: []limiter.Ask{{Limit: &second}, {Limit: &hour}},
		Results: []limiter.Result{
			{Max: 5, Wait: 200 * time.Millisecond, Reset: time.Second},
			{Max: 100, Wait: 7 * time.Minute, Reset: time.Hour},
		},
	}
	h := http.Header{}
	Write(h, Both, d)
	want := fields(
		"X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "420",
		"RateLimit-Policy", `"api";q=100;w=3600`, "RateLimit", `"api";r=0;t=420`)
	if !equal(h, want) {
		t.Errorf("got  %v\nwant %v", h, want)
	}
}

func TestWriteAgain(t *testing.T) {
	first := func(style Style, zone string) http.Header {
		h := http.Header{}
		Write(h, style, decision(sliding(zone, 10, time.Minute),
			limiter.Result{Allowed: true, Max: 10, Remaining: 5, Reset: 30 * time.Second}))
		return h
	}
	small := sliding("small", 20, time.Minute)
	tests := []struct {
		name   string
		before http.Header
		style  Style
		result limiter.Result
		want   http.Header // nil: as before
	}{
		{
			name: "more left", before: first(Both, "api"), style: Both,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 6, Reset: time.Minute},
		},
		{
			name: "as much left, sooner", before: first(Both, "api"), style: Both,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 5, Reset: 30 * time.Second},
		},
		{
			name: "as much left, later", before: first(Legacy, "api"), style: Legacy,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 5, Reset: 31 * time.Second},
			want:   fields("X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "31"),
		},
		{
			name: "less left", before: first(Draft, "api"), style: Draft,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 4, Reset: time.Second},
			want:   fields("RateLimit-Policy", `"small";q=20;w=60`, "RateLimit", `"small";r=4;t=1`),
		},
		{
			name: "refused with more left", before: first(Draft, "api"), style: Draft,
			result: limiter.Result{Max: 20, Remaining: 9, Wait: time.Second},
			want:   fields("RateLimit-Policy", `"small";q=20;w=60`, "RateLimit", `"small";r=9;t=1`),
		},
		{
			name: "the other family goes with it", before: first(Legacy, "api"), style: Draft,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 1, Reset: time.Second},
			want: fields(
				"X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "1",
				"RateLimit-Policy", `"small";q=20;w=60`, "RateLimit", `"small";r=1;t=1`),
		},
		{
			name: "a name that looks like parameters", before: first(Draft, `x";r=0;t=9;`), style: Draft,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 3, Reset: time.Second},
			want:   fields("RateLimit-Policy", `"small";q=20;w=60`, "RateLimit", `"small";r=3;t=1`),
		},
		{
			name: "somebody else's", before: fields("X-RateLimit-Remaining", "few", "X-RateLimit-Reset", "soon"), style: Legacy,
			result: limiter.Result{Allowed: true, Max: 20, Remaining: 20},
			want:   fields("X-RateLimit-Limit", "20", "X-RateLimit-Remaining", "20", "X-RateLimit-Reset", "0"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == nil {
				want = tt.before.Clone()
			}
			Write(tt.before, tt.style, decision(small, tt.result))
			if !equal(tt.before, want) {
				t.Errorf("got  %v\nwant %v", tt.before, want)
			}
		})
	}
}

// TestWriteKeepsValuesApart: whoever adds a value to a field changes no other.
func TestWriteKeepsValuesApart(t *testing.T) {
	h := http.Header{}
	Write(h, Both, decision(sliding("api", 9, time.Second), limiter.Result{Allowed: true, Max: 9, Remaining: 8}))
	h.Add("X-RateLimit-Limit", "added")
	h.Add("RateLimit-Policy", "added")
	if h.Get("X-RateLimit-Remaining") != "8" || h.Get("RateLimit") != `"api";r=8;t=0` {
		t.Errorf("a neighbour was changed: %v", h)
	}
}

func TestWriteAllocations(t *testing.T) {
	d := decision(sliding("api", 100, time.Minute), limiter.Result{Allowed: true, Max: 100, Remaining: 99, Reset: time.Minute})
	h := http.Header{}
	if n := testing.AllocsPerRun(100, func() { clear(h); Write(h, Both, d) }); n > 2 {
		t.Errorf("%v allocations, want at most 2", n)
	}
	d.Nearest = -1
	if n := testing.AllocsPerRun(100, func() { Write(h, Both, d) }); n > 0 {
		t.Errorf("%v allocations without a quota, want none", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	d := decision(sliding("api", 100, time.Minute), limiter.Result{Allowed: true, Max: 100, Remaining: 99, Reset: time.Minute})
	for _, s := range []Style{Legacy, Draft, Both} {
		b.Run(s.String(), func(b *testing.B) {
			h := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				Write(h, s, d)
			}
		})
	}
}
