package limiter

import (
	"strings"
	"testing"
	"time"
)

func TestLimitCheck(t *testing.T) {
	good := Limit{Zone: "api", Algorithm: SlidingWindow, Events: 10, Window: time.Second}
	for _, c := range []struct {
		name   string
		change func(*Limit)
		want   string // "" if the limit is good
	}{
		{"good", func(*Limit) {}, ""},
		{"smallest", func(l *Limit) { l.Events, l.Window = 1, time.Microsecond }, ""},
		{"largest", func(l *Limit) { l.Events, l.Window, l.Burst, l.Ceiling = MaxEvents, MaxWindow, MaxEvents, MaxWindow }, ""},
		{"no zone", func(l *Limit) { l.Zone = "" }, "zone: must have a name"},
		{"row L62", func(l *Limit) { l.Events = 0 }, "events: must be at least 1, got 0"},
		{"row L67", func(l *Limit) { l.Events = -1 }, "events: must be at least 1, got -1"},
		{"events", func(l *Limit) { l.Events = MaxEvents + 1 }, "events: must be at most 1000000000"},
		{"no window", func(l *Limit) { l.Window = 0 }, "window: is missing"},
		{"negative window", func(l *Limit) { l.Window = -time.Second }, "window: must be positive, got -1s"},
		{"nanoseconds", func(l *Limit) { l.Window = 1500 }, "window: must be whole microseconds, got 1.5µs"},
		{"long window", func(l *Limit) { l.Window = MaxWindow + time.Second }, "window: must be at most 366d, got 366d1s"},
		{"burst", func(l *Limit) { l.Burst = -1 }, "burst: must be between 1 and 1000000000, got -1"},
		{"high burst", func(l *Limit) { l.Burst = MaxEvents + 1 }, "burst: must be between"},
		{"ceiling", func(l *Limit) { l.Ceiling = -time.Second }, "count_rejected: must not be negative"},
		{"low ceiling", func(l *Limit) { l.Ceiling = time.Millisecond }, "count_rejected: must not be shorter than the window of 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := good
			c.change(&l)
			err := l.Check()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestLimitMax(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		burst     int64
		want      int64
		quota     bool
	}{
		{SlidingWindow, 0, 10, true},
		{SlidingWindow, 4, 10, true},
		{TokenBucket, 0, 10, true},
		{TokenBucket, 4, 4, true},
		{TokenBucket, 40, 40, true},
		{MinInterval, 4, 10, false},
		{InFlight, 4, 10, false},
	} {
		l := Limit{Algorithm: c.algorithm, Events: 10, Burst: c.burst}
		if l.Max() != c.want || l.HasQuota() != c.quota {
			t.Errorf("%s with a burst of %d: at most %d, quota %t", c.algorithm, c.burst, l.Max(), l.HasQuota())
		}
	}
}

func TestInstant(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)
	i := At(at)
	if got := i.Time(); !got.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%s became %s", at, got)
	}
	if got := i.Add(1500 * time.Microsecond); got != i+1500 {
		t.Errorf("%d and 1.5 ms are %d", i, got)
	}
	// Row L7: microseconds stay whole in a double until long after anyone cares.
	if far := At(time.Date(2255, 1, 1, 0, 0, 0, 0, time.UTC)); far > Exact {
		t.Errorf("%d is more than a double holds", far)
	}
}
