package config

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// The usual ceiling is one that every limit of the zone accepts.
func TestUsualCeiling(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		fields string
		want   time.Duration
	}{
		{`"max_events": 10, "window": "1m"`, day},
		{`"max_events": 10, "window": "7d"`, 7 * day},
		{`"limits": [{"events": 10, "window": "1h"}, {"events": 99, "window": "3d", "algorithm": "sliding_log"}]`, 3 * day},
		{`"max_events": 10, "window": "3d", "algorithm": "sliding_counter"`, 6 * day}, // whose next window counts this one
		{`"max_events": 10, "window": "366d", "algorithm": "sliding_counter"`, 732 * day},
		{`"max_events": 10, "window": "3d", "algorithm": "token_bucket", "burst": 100`, 3 * day},
		{`"min_interval": "2d"`, 2 * day},
	} {
		h := rateLimit(t, `{"rate_limits": {"api": {"key": "x", `+c.fields+`}}}`)
		z := h.Zones["api"]
		z.CountRejected = -1
		if got := time.Duration(z.UsualCeiling()); got != c.want {
			t.Errorf("%s: %s, want %s", c.fields, got, c.want)
		}
		z.CountRejected = caddy.Duration(c.want)
		if err := h.Validate(); err != nil {
			t.Errorf("%s: %v", c.fields, err)
		}
	}
	// Limits that are wrong are for Validate to refuse.
	wrong := rateLimit(t, `{"rate_limits": {"api": {"window": "3d", "algorithm": "token_bucket"}}}`)
	if got := time.Duration(wrong.Zones["api"].UsualCeiling()); got != day {
		t.Errorf("no events: %s", got)
	}
}
