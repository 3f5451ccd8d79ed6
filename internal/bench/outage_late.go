package main

import (
	"context"
	"sync"
	"time"
)

// A wakeup is one sleep of somebody who does nothing else, as long as a request waits for Redis.
type wakeup struct {
	due, late time.Duration // since the load's begin, and by how much it was too late
}

// oversleep has as many sleep as there are clients, in the same moments, and returns how late they woke
// up: what the machine alone adds to a wait.
func oversleep(ctx context.Context, begin time.Time) []wakeup {
	var (
		mu  sync.Mutex
		all []wakeup
		wg  sync.WaitGroup
	)
	for i := range outageClients {
		wg.Go(func() {
			var mine []wakeup
			for due := outageTimeout * time.Duration(i) / outageClients; ; {
				due = max(due, time.Since(begin)) + outageTimeout
				if until(ctx, begin.Add(due)) != nil {
					break
				}
				mine = append(mine, wakeup{due, time.Since(begin) - due})
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	return all
}

// latest returns the longest that somebody overslept in a phase.
func (s *story) latest(p phase) time.Duration {
	var most time.Duration
	for _, w := range s.wakeups {
		if w.due >= p.from && w.due < p.to {
			most = max(most, w.late)
		}
	}
	return most
}
