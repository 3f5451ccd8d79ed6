package algorithm

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Whatever happens to a marked log, every event that was let pass and was not given back is
// covered by one in the log that is not older. So it counts at least as long as it should, and
// no window ever sees more than the limit.
func TestMarkedLogCovers(t *testing.T) {
	for _, c := range []struct {
		name    string
		events  []int64
		ceiling time.Duration
		refunds bool
	}{
		{"plain", []int64{1000}, 0, false},
		{"hammered", []int64{1000}, 3 * time.Second, false},
		{"refunds", []int64{1000}, 0, true},
		{"small marks, refunds", []int64{73}, 0, true},
		{"no marks, refunds", []int64{72}, 0, true},
		{"changing numbers", []int64{5, 72, 73, 145, 1000, 5000}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(30) {
				w := coverWalk{t: t, rng: rand.New(rand.NewPCG(seed, 6)), now: base}
				for range 300 {
					l := &limiter.Limit{
						Algorithm: limiter.SlidingWindow, Events: c.events[w.rng.IntN(len(c.events))],
						Window: time.Second, Ceiling: c.ceiling,
					}
					w.step(l, c.refunds)
				}
			}
		})
	}
}

type coverWalk struct {
	t     *testing.T
	rng   *rand.Rand
	now   limiter.Instant
	state []byte
	live  []limiter.Instant // what was let pass and not given back, oldest first
}

func (w *coverWalk) step(l *limiter.Limit, refunds bool) {
	w.now += limiter.Instant(w.rng.Int64N(1 + w.rng.Int64N(window(l)/8)))
	w.live = slices.DeleteFunc(w.live, func(at limiter.Instant) bool { return at.Add(l.Window) <= w.now })
	a := limiter.Ask{Limit: l, Cost: 1 + w.rng.Int64N(1+l.Events/5)}
	if r := Peek(slidingWindow{}, w.now, w.state, &a); r.Allowed {
		w.state, _ = Spend(slidingWindow{}, w.now, w.state, &a)
		for range a.Cost {
			w.live = append(w.live, w.now)
		}
	} else {
		w.state, _, _ = Refuse(slidingWindow{}, w.now, w.state, &a, r)
	}
	if int64(len(w.live)) > 5000 {
		w.t.Fatalf("%d events of a limit of %d count", len(w.live), l.Events)
	}
	if refunds && len(w.live) > 0 && w.rng.IntN(2) == 0 {
		w.refund(l)
	}
	w.check(l)
}

// refund gives some of what was spent at one moment back.
func (w *coverWalk) refund(l *limiter.Limit) {
	spent := w.live[w.rng.IntN(len(w.live))]
	first := slices.Index(w.live, spent)
	last := first
	for last < len(w.live) && w.live[last] == spent {
		last++
	}
	back := 1 + w.rng.IntN(last-first)
	w.state, _ = Adjust(slidingWindow{}, w.now, w.state, &limiter.Change{Limit: l, Delta: -int64(back), Spent: spent})
	w.live = slices.Delete(w.live, first, first+back)
}

func (w *coverWalk) check(l *limiter.Limit) {
	w.t.Helper()
	var m marked
	m.read(w.now, inner(w.now, w.state), l)
	if len(inner(w.now, w.state)) > markedMost {
		w.t.Fatalf("a state of %d bytes", len(w.state))
	}
	// Compare from the newest on, as many as the limit can tell apart.
	for i := int64(1); i <= min(int64(len(w.live)), l.Events); i++ {
		event := w.live[int64(len(w.live))-i]
		if i > m.live {
			w.t.Fatalf("%d events count, the log has %d", len(w.live), m.live)
		}
		if at := markEpoch + 8*limiter.Instant(m.at(int((m.live-i)/m.k))); at < event {
			w.t.Fatalf("the %d. newest of %d events, of %d, stands in the log with %d", i, len(w.live), event, at)
		}
	}
	if m.k == 1 && int64(len(w.live)) < m.live-1 && l.Ceiling == 0 && len(w.live) > int(l.Events) {
		w.t.Fatalf("%d events count, the log has %d", len(w.live), m.live)
	}
}

// A give-back is exact up to a limit of 72, and above is rounded down to whole marks unless it
// concerns the newest one.
func TestMarkedLogRefund(t *testing.T) {
	l := &limiter.Limit{Algorithm: limiter.SlidingWindow, Events: 720, Window: time.Minute}
	type spend struct{ after, cost int64 } // seconds
	for _, c := range []struct {
		name   string
		spends []spend
		later  int64 // seconds until the give-back
		spent  int64 // which of them is given back, -1 for none in particular
		back   int64
		used   int64 // afterwards
	}{
		{"newest", []spend{{0, 25}, {1, 7}}, 0, 1, 7, 25},
		{"newest, in part", []spend{{0, 25}, {1, 7}}, 0, 1, 3, 29},
		{"newest, over several marks", []spend{{0, 25}, {1, 40}}, 0, 1, 40, 25},
		{"alone", []spend{{0, 25}}, 0, 0, 25, 0},
		{"older, whole marks", []spend{{0, 25}, {1, 20}}, 0, 0, 25, 25},
		{"older, less than a mark", []spend{{0, 25}, {1, 20}}, 0, 0, 9, 45},
		{"older, inside a mark", []spend{{0, 5}, {1, 20}}, 0, 0, 5, 25},
		{"any, whole marks", []spend{{0, 25}, {1, 20}}, 0, -1, 25, 25},
		{"any, all", []spend{{0, 25}, {1, 20}}, 0, -1, 45, 0},
		{"any, into the newest mark", []spend{{0, 10}, {1, 5}}, 0, -1, 12, 3},
		{"gone, in a mark that counts", []spend{{0, 3}, {50, 3}}, 11, 0, 3, 6},
		{"not gone, in a mark that counts", []spend{{0, 3}, {50, 3}}, 9, 0, 3, 3},
		{"more than was used", []spend{{0, 3}}, 0, -1, 1000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := limiter.Instant(base)
			var state []byte
			var at []limiter.Instant
			for _, s := range c.spends {
				now += limiter.Instant(s.after * 1_000_000)
				state, _ = Spend(slidingWindow{}, now, state, &limiter.Ask{Limit: l, Cost: s.cost})
				at = append(at, now)
			}
			change := limiter.Change{Limit: l, Delta: -c.back}
			if c.spent >= 0 {
				change.Spent = at[c.spent]
			}
			now += limiter.Instant(c.later * 1_000_000)
			_, r := Adjust(slidingWindow{}, now, state, &change)
			if used := r.Max - r.Remaining; used != c.used {
				t.Errorf("%d are used, want %d", used, c.used)
			}
		})
	}
}
