package algorithm

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// What cannot be counted is refused, and the message says what can be.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		l    limiter.Limit
		want string // "" if the limit is good
	}{
		{"sliding_window", limiter.Limit{Events: limiter.MaxEvents, Window: limiter.MaxWindow}, ""},
		{"sliding_counter", limiter.Limit{Events: limiter.MaxEvents, Window: limiter.MaxWindow}, ""},
		{"sliding_counter", limiter.Limit{Events: 10, Window: time.Minute, Ceiling: 2 * time.Minute}, ""},
		{"sliding_counter", limiter.Limit{Events: 10, Window: time.Minute, Ceiling: time.Minute}, "at least twice as long, got 1m0s"},
		{"fixed_window", limiter.Limit{Events: limiter.MaxEvents, Window: limiter.MaxWindow}, ""},
		{"sliding_log", limiter.Limit{Events: 100_000, Window: time.Second}, ""},
		{"sliding_log", limiter.Limit{Events: 100_001, Window: time.Second}, "sliding_window has no such bound"},
		{"in_flight", limiter.Limit{Events: 10_000, Window: time.Minute}, ""},
		{"in_flight", limiter.Limit{Events: 10_001, Window: time.Minute}, "at most 10000"},
		{"in_flight", limiter.Limit{Events: 1, Window: time.Minute, Ceiling: time.Hour}, "count_rejected: means nothing"},
		{"min_interval", limiter.Limit{Events: 1, Window: limiter.MaxWindow}, ""},
		{"min_interval", limiter.Limit{Events: 2, Window: time.Second}, "events: a min_interval lets 1 pass"},
		// Row L68: any usual rate is exact.
		{"token_bucket", limiter.Limit{Events: 700, Window: time.Minute}, ""},
		{"token_bucket", limiter.Limit{Events: 120_000, Window: time.Minute}, ""},
		{"token_bucket", limiter.Limit{Events: 1_000_000, Window: time.Second}, ""},
		{"token_bucket", limiter.Limit{Events: 999_983, Window: time.Hour}, ""},
		{"token_bucket", limiter.Limit{Events: 1_000_000_000, Window: 24 * time.Hour}, ""},
		{"token_bucket", limiter.Limit{Events: 999_999_937, Window: time.Hour}, "999999900 can"},
		{"token_bucket", limiter.Limit{Events: 999_983, Window: limiter.MaxWindow}, "can"},
		{"token_bucket", limiter.Limit{Events: 999_999_937, Window: 7 * time.Microsecond}, "fewer in a window of whole seconds can"},
	} {
		c.l.Zone, c.l.Algorithm = "z", c.name
		if err := c.l.Check(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		err := Of(c.name).Check(&c.l)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %d/%s: refused: %v", c.name, c.l.Events, c.l.Window, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %d/%s: %v, want %q", c.name, c.l.Events, c.l.Window, err, c.want)
		}
	}
}

// What Check suggests can be counted.
func TestTokenBucketSuggestion(t *testing.T) {
	l := limiter.Limit{Zone: "z", Algorithm: limiter.TokenBucket, Events: 999_999_900, Window: time.Hour}
	if err := (tokenBucket{}).Check(&l); err != nil {
		t.Error(err)
	}
}

// Numbers of all widths come back as they were put, and touch nothing beside them.
func TestBytes(t *testing.T) {
	for _, c := range []struct {
		width int
		put   func([]byte, int64)
		get   func([]byte) int64
	}{{3, put3, get3}, {4, put4, get4}, {5, put5, get5}, {6, put6, get6}, {7, put7, get7}} {
		for _, v := range []int64{0, 1, 0x0102030405060708 & (1<<(8*c.width) - 1), 1<<(8*c.width) - 1} {
			b := make([]byte, c.width+1)
			b[c.width] = 0xa5
			c.put(b, v)
			if got := c.get(b); got != v || b[c.width] != 0xa5 {
				t.Errorf("%d bytes: put %x, got %x", c.width, v, got)
			}
		}
	}
}
