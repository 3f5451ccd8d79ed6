package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Oracle sends traffic of many shapes to a store and checks against a plain log of what
// passed that each way of counting keeps its promise. Each shape lasts
// for as many requests as that many windows allow.
func Oracle(t *testing.T, open Open, windows int) {
	for _, p := range promises {
		for _, events := range p.events {
			t.Run(fmt.Sprintf("%s/%d", p.algorithm, events), func(t *testing.T) {
				clock := NewClock()
				d := &desk{t: t, clock: clock, store: open(t, clock.Now)}
				l := &limiter.Limit{Zone: "z", Algorithm: p.algorithm, Events: events, Burst: events / 2, Window: time.Minute}
				for n, shape := range shapes {
					rng := rand.New(rand.NewPCG(uint64(n), uint64(events)))
					traffic, passed := d.send(l, shape.name, shape.gaps(rng, l), windows)
					if err := p.kept(l, traffic, passed); err != nil {
						t.Errorf("%s: %v", shape.name, err)
					}
					clock.Advance(2 * l.Window)
				}
			})
		}
	}
}

// send asks at the times of a shape, under the shape's name as a key, and returns them and
// whether each request passed. Times are instants.
func (d *desk) send(l *limiter.Limit, key string, gap func() time.Duration, windows int) (at []int64, passed []bool) {
	d.t.Helper()
	results := make([]limiter.Result, 1)
	asks := []limiter.Ask{{Limit: l, Key: key, Cost: 1}}
	for range int64(windows)*l.Events + 1 {
		if err := d.store.Take(d.t.Context(), asks, results); err != nil {
			d.t.Fatal(err)
		}
		at = append(at, int64(limiter.At(d.clock.Now())))
		passed = append(passed, results[0].Allowed)
		// The clock's whole microseconds are all that a store sees.
		d.clock.Advance(gap().Truncate(time.Microsecond))
	}
	return at, passed
}

// promises tells for each way of counting what it promises.
var promises = []struct {
	algorithm string
	events    []int64
	kept      func(l *limiter.Limit, at []int64, passed []bool) error
}{
	{limiter.SlidingWindow, []int64{1, 10, 64, 72}, allOf(atMost(1), sameAs(8))},
	{limiter.SlidingWindow, []int64{73, 100, 145, 1000}, allOf(atMost(1), atLeast(986))},
	{limiter.SlidingLog, []int64{1, 10, 100, 1000}, allOf(atMost(1), sameAs(1))},
	{limiter.SlidingCounter, []int64{1, 10, 1000}, atMost(2)},
	{limiter.FixedWindow, []int64{1, 10, 1000}, allOf(ownWindows, atMost(2))},
	{limiter.TokenBucket, []int64{10, 700, 1000}, bucketOf},
	{limiter.MinInterval, []int64{1}, atMost(1)},
}

func allOf(checks ...func(*limiter.Limit, []int64, []bool) error) func(*limiter.Limit, []int64, []bool) error {
	return func(l *limiter.Limit, at []int64, passed []bool) error {
		for _, check := range checks {
			if err := check(l, at, passed); err != nil {
				return err
			}
		}
		return nil
	}
}

// atMost: in no window, wherever it begins, more than factor times the limit.
func atMost(factor int64) func(*limiter.Limit, []int64, []bool) error {
	return func(l *limiter.Limit, at []int64, passed []bool) error {
		most := int(factor * l.Events)
		log := only(at, passed)
		for i := most; i < len(log); i++ {
			if span := log[i] - log[i-most]; span < l.Window.Microseconds() {
				return fmt.Errorf("%d passed within %d µs, up to %d µs", most+1, span, log[i])
			}
		}
		return nil
	}
}

// sameAs: just what an exact log lets pass, in which times are rounded up to unit µs.
func sameAs(unit int64) func(*limiter.Limit, []int64, []bool) error {
	return func(l *limiter.Limit, at []int64, passed []bool) error {
		want := exactly(l, at, unit)
		for i := range at {
			if passed[i] != want[i] {
				return fmt.Errorf("request %d at %d µs: passed %t, an exact log says %t", i, at[i], passed[i], want[i])
			}
		}
		return nil
	}
}

// atLeast: this many thousandths of what an exact log lets pass that rounds times alike.
func atLeast(share int) func(*limiter.Limit, []int64, []bool) error {
	return func(l *limiter.Limit, at []int64, passed []bool) error {
		got, want := len(only(at, passed)), len(only(at, exactly(l, at, 8)))
		if got*1000 < want*share {
			return fmt.Errorf("%d passed where an exact log lets %d pass: %.4f", got, want, float64(got)/float64(want))
		}
		return nil
	}
}

// exactly decides by a log of all that passed.
func exactly(l *limiter.Limit, at []int64, unit int64) []bool {
	passed := make([]bool, len(at))
	var ends []int64
	for i, now := range at {
		for len(ends) > 0 && ends[0] <= now {
			ends = ends[1:]
		}
		if passed[i] = int64(len(ends)) < l.Events; passed[i] {
			ends = append(ends, (now+unit-1)/unit*unit+l.Window.Microseconds())
		}
	}
	return passed
}

// ownWindows: the limit in each window, the first of which begins with the first hit after
// the last one ended.
func ownWindows(l *limiter.Limit, at []int64, passed []bool) error {
	start, count := int64(0), int64(0)
	for i, now := range at {
		if now >= start+l.Window.Microseconds() {
			start, count = now, 0
		}
		if want := count < l.Events; passed[i] != want {
			return fmt.Errorf("request %d at %d µs: passed %t, %d in the window before it", i, now, passed[i], count)
		}
		if passed[i] {
			count++
		}
	}
	return nil
}

// bucketOf: in any span at most the burst and what the span refills, and nothing is refused
// that would not be more.
func bucketOf(l *limiter.Limit, at []int64, passed []bool) error {
	// The level is counted in events × window, so that nothing is rounded.
	span, full := l.Window.Microseconds(), l.Max()*l.Window.Microseconds()
	level, last := full, at[0]
	for i, now := range at {
		level, last = min(level+(now-last)*l.Events, full), now
		if want := level >= span; passed[i] != want {
			return fmt.Errorf("request %d at %d µs: passed %t with %d/%d tokens", i, now, passed[i], level, span)
		}
		if passed[i] {
			level -= span
		}
	}
	return nil
}

// only returns the times of the requests that passed.
func only(at []int64, passed []bool) []int64 {
	var log []int64
	for i, t := range at {
		if passed[i] {
			log = append(log, t)
		}
	}
	return log
}
