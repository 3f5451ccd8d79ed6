// Package storetest holds what every store of limits must do, as tests that a store's own
// tests call: [Exercise] is the contract, [Oracle] checks what each way of counting
// promises against an exact log of what passed.
//
// The stories a user would tell of each way of counting stand in testdata, a plain line for
// each step.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// An Open returns a new, empty store that tells the time by now. It ends with the test.
type Open func(t testing.TB, now func() time.Time) limiter.Store

// Exercise runs the contract of [limiter.Store] on a store.
func Exercise(t *testing.T, open Open) {
	t.Run("traces", func(t *testing.T) { traces(t, open) })
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			clock := NewClock()
			c.test(t, &desk{t: t, clock: clock, store: open(t, clock.Now)})
		})
	}
	for _, alg := range algorithm.All {
		for _, c := range everyAlgorithm {
			t.Run(c.name+"/"+alg.Name(), func(t *testing.T) {
				clock := NewClock()
				c.test(t, &desk{t: t, clock: clock, store: open(t, clock.Now)}, alg.Name())
			})
		}
	}
}

// A Clock is turned by hand. It may be read by many goroutines at once.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a moment in 2026 at which no second, and no 8 µs,
// begins.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 1, 11, 59, 58, 123_457_000, time.UTC)}
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance turns the clock on, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// desk is where a test asks a store.
type desk struct {
	t     *testing.T
	clock *Clock
	store limiter.Store
}

// ask builds an ask of cost 1.
func ask(l *limiter.Limit, key string) limiter.Ask {
	return limiter.Ask{Limit: l, Key: key, Cost: 1}
}

// take asks all in one step.
func (d *desk) take(asks ...limiter.Ask) []limiter.Result {
	d.t.Helper()
	results := make([]limiter.Result, len(asks))
	if err := d.store.Take(context.Background(), asks, results); err != nil {
		d.t.Fatal(err)
	}
	return results
}

// passes asks times times and returns how many passed.
func (d *desk) passes(times int, asks ...limiter.Ask) int {
	d.t.Helper()
	passed := 0
	results := make([]limiter.Result, len(asks))
	for range times {
		decision, err := limiter.Take(context.Background(), d.store, asks, results)
		if err != nil {
			d.t.Fatal(err)
		}
		if decision.Allowed {
			passed++
		}
	}
	return passed
}

// left looks at a key.
func (d *desk) left(l *limiter.Limit, key string) limiter.Result {
	d.t.Helper()
	return d.take(limiter.Ask{Limit: l, Key: key, Lease: "look"})[0]
}

func (d *desk) wantLeft(l *limiter.Limit, key string, want int64) {
	d.t.Helper()
	if r := d.left(l, key); r.Remaining != want {
		d.t.Errorf("%s: %d left, want %d (%+v)", key, r.Remaining, want, r)
	}
}

func (d *desk) adjust(changes ...limiter.Change) {
	d.t.Helper()
	if err := d.store.Adjust(context.Background(), changes); err != nil {
		d.t.Fatal(err)
	}
}

// limitOf returns a limit of ten, of one for a min_interval, in ten seconds.
func limitOf(name string) *limiter.Limit {
	l := &limiter.Limit{Zone: "api", Algorithm: name, Events: 10, Window: 10 * time.Second}
	if name == limiter.MinInterval {
		l.Events = 1
	}
	return l
}
