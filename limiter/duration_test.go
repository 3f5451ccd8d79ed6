package limiter

import (
	"testing"
	"time"
)

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                               "0s",
		1500 * time.Microsecond:         "1.5ms",
		10 * time.Second:                "10s",
		time.Minute:                     "1m",
		10 * time.Minute:                "10m",
		90 * time.Minute:                "1h30m",
		time.Hour:                       "1h",
		time.Hour + 30*time.Second:      "1h0m30s",
		24 * time.Hour:                  "1d",
		36*time.Hour + 10*time.Minute:   "1d12h10m",
		24*time.Hour + time.Microsecond: "1d1µs",
		MaxWindow:                       "366d",
		-time.Minute:                    "-1m0s",
	} {
		if got := ShortDuration(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}
