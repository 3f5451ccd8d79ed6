package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// Without a clock of its own a store goes by monotonic time (row L5), which starts at the wall's.
func TestClock(t *testing.T) {
	before := limiter.At(time.Now())
	s := New(Options{})
	l := limit(limiter.FixedWindow)
	first, second := take(t, s, l, "k", 1).Now, take(t, s, l, "k", 1).Now
	after := limiter.At(time.Now())
	if first < before || second < first || second > after+1 {
		t.Errorf("%d, %d between %d and %d", first, second, before, after)
	}
}

// A call that read the clock and then waited for its lock is not dated before those that it let pass:
// here one of an hour ahead, which stands for any that was faster.
func TestNoStepIsDatedBack(t *testing.T) {
	l := limit(limiter.SlidingWindow)
	keys := []string{"a", "b", "c"}
	both := func(s *Store, x, y string) limiter.Instant {
		asks, results := []limiter.Ask{{Limit: l, Key: x}, {Limit: l, Key: y}}, make([]limiter.Result, 2)
		if err := s.Take(context.Background(), asks, results); err != nil {
			t.Fatal(err)
		}
		return results[0].Now
	}
	s := New(Options{})
	ahead := s.now().Add(time.Hour)
	var p place
	if _, err := s.locate(&p, l, keys[0]); err != nil {
		t.Fatal(err)
	}
	p.shard.last = ahead
	if now := take(t, s, l, keys[0], 0).Now; now < ahead {
		t.Errorf("one ask after it: %d, want at least %d", now, ahead)
	}
	if now := both(s, keys[1], keys[0]); now < ahead {
		t.Errorf("two asks after it, of which one meets it: %d, want at least %d", now, ahead)
	}
	if now := take(t, s, l, keys[1], 0).Now; now < ahead {
		t.Errorf("one ask after the two: %d, want at least %d", now, ahead)
	}
	if now := both(s, keys[1], keys[2]); now < ahead {
		t.Errorf("two more: %d, want at least %d", now, ahead)
	}
}

// What a sweep has removed does not count for a call that read the clock before.
func TestSweepIsAStep(t *testing.T) {
	s := New(Options{MaxKeys: 1})
	before := s.now()
	s.Sweep(1)
	if last := s.shards[0].last; last < before {
		t.Errorf("the last step was at %d, before the sweep at %d", last, before)
	}
}

// A clock that was given may step back, and is followed.
func TestGivenClockStepsBack(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{Now: clock.Now})
	l := limit(limiter.SlidingWindow)
	take(t, s, l, "k", 1)
	clock.Advance(-time.Hour)
	if now := take(t, s, l, "k", 1).Now; now != limiter.At(clock.Now()) {
		t.Errorf("at %d, want %d", now, limiter.At(clock.Now()))
	}
}
