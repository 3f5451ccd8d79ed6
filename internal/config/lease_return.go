package config

import (
	"context"
	"slices"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A leaseOwner names a state in which leases are held: a key of a zone.
type leaseOwner struct{ zone, key string }

func ownerOf(a *limiter.Ask) leaseOwner { return leaseOwner{a.Limit.Zone, a.Key} }

// giveBack gives back what has ended, a batch at a time: there may always be more.
func (l *lessor) giveBack() {
	batch := l.next(&l.ended)
	if len(batch) == 0 {
		return
	}
	if err := l.store.Release(context.Background(), asksOf(batch)); err != nil {
		l.postpone(batch)
	} else {
		l.gaveBack(batch)
	}
	l.nudge()
}

// giveBackLate tries again what could not be given back, until that fails too often: a store
// that is away is then left alone until the next tick.
func (l *lessor) giveBackLate() {
	l.mu.Lock()
	left := len(l.late) // not what fails meanwhile
	l.mu.Unlock()
	for failures := 0; failures < mostFailures && left > 0; {
		batch := l.next(&l.late)
		left -= len(batch)
		if len(batch) == 0 {
			return
		}
		if err := l.store.Release(context.Background(), asksOf(batch)); err != nil {
			failures++
			l.postpone(batch)
		}
	}
}

// next takes a batch off the front of a line.
func (l *lessor) next(line *[]*lease) []*lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := slices.Clone((*line)[:min(len(*line), leaseBatch)])
	*line = slices.Delete(*line, 0, len(batch))
	byState(batch)
	return batch
}

// gaveBack tells those who wait that leases are given back.
func (l *lessor) gaveBack(batch []*lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(batch)
	for _, one := range batch {
		l.through = max(l.through, one.number)
	}
	close(l.round)
	l.round = make(chan struct{})
}

// forget drops what is known of leases that nobody has to wait for any more. l.mu is held.
func (l *lessor) forget(leases []*lease) {
	for _, one := range leases {
		if owner := ownerOf(&one.ask); l.last[owner] == one.number {
			delete(l.last, owner)
		}
	}
}

// postpone puts leases that could not be given back at the end of those that are late, unless
// the store has given them up by itself. Nobody waits for them.
func (l *lessor) postpone(failed []*lease) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(failed)
	for _, one := range failed {
		if one.until.After(now) && len(l.late) < mostEnded {
			l.late = append(l.late, one)
		}
	}
}

// returning returns the number of the last lease that is still being given back of those
// that requests with these asks have held, 0 if there is none.
func (l *lessor) returning(asks []limiter.Ask) (number uint64) {
	if l.near {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range asks {
		if asks[i].Limit.Algorithm == limiter.InFlight {
			number = max(number, l.last[ownerOf(&asks[i])])
		}
	}
	return number
}

// await waits until the lease of that number is given back, and reports whether it is.
func (l *lessor) await(number uint64, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		l.mu.Lock()
		through, round := l.through, l.round
		l.mu.Unlock()
		if through >= number {
			return true
		}
		select {
		case <-round:
		case <-timer.C:
			return false
		}
	}
}
