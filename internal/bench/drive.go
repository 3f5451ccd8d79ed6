package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
	"github.com/weirhq/caddy-weir/internal/bench/peer"
)

// A rush is how decisions are asked for: by so many clients at once, each asking for the next
// one when it has the last (a closed loop), taking turns among the keys.
type rush struct {
	Clients int
	Keys    int
	// InOrder has them ask about keys in the order in which these were seen first, which keeps
	// what belongs to neighbours side by side in most stores; else it is an order by chance.
	InOrder bool
	Length  time.Duration
	// Timed is how many decisions there are to one that is timed by itself: taking the time
	// costs as much as a decision in memory.
	Timed int
}

// An outcome is what a rush came to.
type outcome struct {
	Decisions int
	Refused   int
	Errors    int    // decisions that were none, but did not end the rush
	Error     string // the first of them
	Took      time.Duration
	P50, P99  time.Duration
	Worst     time.Duration
	CPU       time.Duration // of the client's process
	Allocs    uint64        // of memory, in number
	ServerCPU time.Duration // of the redis-server, if there is one
}

// drive runs a rush against a limiter.
func drive(ctx context.Context, l peer.Limiter, r rush, keys []string) outcome {
	var (
		o      outcome
		over   atomic.Bool
		first  sync.Once
		wg     sync.WaitGroup
		all    = make([]tally, r.Clients)
		before runtime.MemStats
		after  runtime.MemStats
	)
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i := range all {
		wg.Go(func() {
			err := all[i].run(ctx, l, r, keys[:r.Keys], i*r.Keys/r.Clients, &over)
			if err != nil {
				first.Do(func() { o.Error = err.Error() })
			}
		})
	}
	timer := time.NewTimer(r.Length)
	select {
	case <-timer.C:
	case <-ctx.Done():
		timer.Stop()
	}
	over.Store(true)
	wg.Wait()
	o.Took = time.Since(start)
	runtime.ReadMemStats(&after)
	o.Allocs = after.Mallocs - before.Mallocs
	sum := &gauge.Delays{}
	for i := range all {
		o.Decisions += all[i].decisions
		o.Refused += all[i].refused
		o.Errors += all[i].errors
		sum.Add(&all[i].delays)
	}
	o.P50, o.P99, o.Worst = sum.Within(0.5), sum.Within(0.99), sum.Worst()
	return o
}

// A tally is what one client of a rush counts.
type tally struct {
	decisions, refused, errors int
	delays                     gauge.Delays

	_ [64]byte // of two clients not on one cache line
}

// run asks until it is over, and returns the first error.
func (t *tally) run(ctx context.Context, l peer.Limiter, r rush, keys []string, at int, over *atomic.Bool) error {
	var first error
	for !over.Load() {
		for i := range r.Timed {
			if at++; at >= len(keys) {
				at = 0
			}
			var start time.Time
			if i == 0 {
				start = time.Now()
			}
			ok, err := l.Allow(ctx, keys[at])
			if i == 0 {
				t.delays.Note(time.Since(start))
			}
			switch {
			case err != nil:
				t.errors++
				if first == nil {
					first = err
				}
			case ok:
				t.decisions++
			default:
				t.decisions++
				t.refused++
			}
		}
	}
	return first
}
