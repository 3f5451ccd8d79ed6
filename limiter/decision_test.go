package limiter

import (
	"context"
	"errors"
	"testing"
	"time"
)

// answers is a store that gives prepared results.
type answers struct {
	Store
	results []Result
	err     error
	calls   int
}

func (s *answers) Take(_ context.Context, _ []Ask, results []Result) error {
	s.calls++
	copy(results, s.results)
	return s.err
}

func TestTake(t *testing.T) {
	quota := &Limit{Algorithm: SlidingWindow, Events: 100}
	other := &Limit{Algorithm: TokenBucket, Events: 10}
	apart := &Limit{Algorithm: MinInterval, Events: 1}
	shadow := &Limit{Algorithm: SlidingWindow, Events: 5, Shadow: true}
	left := func(n int64, reset time.Duration) Result { return Result{Allowed: true, Remaining: n, Reset: reset} }
	wait := func(d time.Duration) Result { return Result{Wait: d} }

	for _, c := range []struct {
		name            string
		limits          []*Limit
		results         []Result
		allowed         bool
		blamed, nearest int
	}{
		{"no asks", nil, nil, true, -1, -1},
		{"allowed", []*Limit{quota}, []Result{left(9, 0)}, true, -1, 0},
		{"the fewest left", []*Limit{quota, other}, []Result{left(9, 0), left(3, 0)}, true, -1, 1},
		{"as few left, the later reset", []*Limit{quota, other}, []Result{left(3, time.Hour), left(3, time.Second)}, true, -1, 0},
		{"refused", []*Limit{quota, other}, []Result{left(0, 0), wait(time.Second)}, false, 1, 1},
		// Row L113: the longest wait is blamed, in whatever order they stand.
		{"the longest wait", []*Limit{quota, other}, []Result{wait(time.Hour), wait(time.Second)}, false, 0, 0},
		{"the longest wait last", []*Limit{quota, other}, []Result{wait(time.Second), wait(time.Hour)}, false, 1, 1},
		{"never", []*Limit{quota, other}, []Result{wait(Never), wait(time.Hour)}, false, 0, 0},
		{"no quota", []*Limit{apart}, []Result{wait(time.Second)}, false, 0, -1},
		{"blamed without a quota", []*Limit{quota, apart}, []Result{left(7, 0), wait(time.Second)}, false, 1, 0},
		{"shadow", []*Limit{shadow, quota}, []Result{wait(time.Hour), left(7, 0)}, true, -1, 1},
		{"shadow alone", []*Limit{shadow}, []Result{wait(time.Hour)}, true, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asks []Ask
			for _, l := range c.limits {
				asks = append(asks, Ask{Limit: l})
			}
			s := &answers{results: c.results}
			d, err := Take(t.Context(), s, asks, make([]Result, len(asks)))
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed != c.allowed || d.Blamed != c.blamed || d.Nearest != c.nearest {
				t.Errorf("allowed %t, blamed %d, nearest %d; want %t, %d, %d",
					d.Allowed, d.Blamed, d.Nearest, c.allowed, c.blamed, c.nearest)
			}
			if len(asks) == 0 && s.calls != 0 {
				t.Error("the store was asked for nothing")
			}
		})
	}
}

// A refusal for want of a place promises nothing, and is blamed only if no other limit tells
// of a longer wait.
func TestTakeInFlight(t *testing.T) {
	flight := &Limit{Algorithm: InFlight, Events: 2}
	quota := &Limit{Algorithm: SlidingWindow, Events: 5}
	for _, c := range []struct {
		wait   time.Duration // of the quota's refusal
		blamed int
		told   time.Duration
	}{{5 * time.Second, 1, 5 * time.Second}, {time.Millisecond, 0, InFlightWait}} {
		s := &answers{results: []Result{{Wait: 30 * time.Second}, {Wait: c.wait}}}
		d, err := Take(t.Context(), s, []Ask{{Limit: flight}, {Limit: quota}}, make([]Result, 2))
		if err != nil || d.Allowed || d.Blamed != c.blamed || d.Nearest != 1 || d.Results[d.Blamed].Wait != c.told {
			t.Errorf("%+v, %v; want %d blamed, and a wait of %s", d, err, c.blamed, c.told)
		}
	}
	shadow := *flight
	shadow.Shadow = true
	s := &answers{results: []Result{{Wait: 30 * time.Second}}}
	d, err := Take(t.Context(), s, []Ask{{Limit: &shadow}}, make([]Result, 1))
	if err != nil || !d.Allowed || d.Results[0].Wait != InFlightWait {
		t.Errorf("a shadow: %+v, %v", d, err)
	}
}

func TestTakeError(t *testing.T) {
	s := &answers{err: ErrUnavailable}
	asks := []Ask{{Limit: &Limit{Events: 1}}}
	if _, err := Take(t.Context(), s, asks, make([]Result, 1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v, want the store's error", err)
	}
}

func TestOrigin(t *testing.T) {
	for origin, want := range map[Origin]string{Exactly: "exact", Cached: "cached", Local: "local"} {
		if origin.String() != want {
			t.Errorf("%q, want %q", origin, want)
		}
	}
}
