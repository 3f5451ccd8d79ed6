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

// giveBack gives back what has ended by now: what ends meanwhile wakes the goroutine again.
// It reports whether the store answers.
func (l *lessor) giveBack() bool {
	l.mu.Lock()
	now := l.number
	l.mu.Unlock()
	var failed []*lease
	defer func() { l.takeBack(failed) }()
	for failures := 0; failures < mostFailures; {
		l.mu.Lock()
		if len(l.ended) == 0 || l.ended[0].number > now {
			l.mu.Unlock()
			return failures == 0
		}
		batch := slices.Clone(l.ended[:min(len(l.ended), leaseBatch)])
		l.ended = slices.Delete(l.ended, 0, len(batch))
		l.mu.Unlock()
		byState(batch)
		if err := l.store.Release(context.Background(), asksOf(batch)); err != nil {
			failures++
			failed = append(failed, batch...)
			continue
		}
		l.gaveBack(batch)
	}
	return false
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

// takeBack puts leases that could not be given back in line again, behind those that were not
// tried, unless the store has given them up by itself.
func (l *lessor) takeBack(failed []*lease) {
	if len(failed) == 0 {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Concat(l.ended, failed)
	l.ended = make([]*lease, 0, min(len(all), mostEnded))
	for _, one := range all {
		if one.until.After(now) && len(l.ended) < mostEnded {
			l.ended = append(l.ended, one)
		} else {
			l.forget([]*lease{one})
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
