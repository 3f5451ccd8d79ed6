package layer

import (
	"context"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Share returns a store that enforces an instance's share of each limit on a store that n
// instances have one each of: what stands in for a shared store under the same limits. All that
// the instances let pass together is then about what one limit allows.
//
// A share is the limit's events, and burst, divided by n and rounded down, but at least 1: of a
// limit below n the instances let more pass together, up to n. The distance that a min_interval
// demands is n times as long, [limiter.MaxWindow] at most. A request that costs more than a share,
// but not more than the limit, takes all of the share. Results tell the share.
func Share(n int, s limiter.Store) limiter.Store {
	if n <= 1 {
		return s
	}
	return &share{n: int64(n), store: s}
}

type share struct {
	n      int64
	store  limiter.Store
	limits sync.Map  // *limiter.Limit, as configured, to *limiter.Limit
	rooms  sync.Pool // of *[]limiter.Ask
}

// of returns the share of a limit.
func (s *share) of(l *limiter.Limit) *limiter.Limit {
	if known, ok := s.limits.Load(l); ok {
		return known.(*limiter.Limit)
	}
	part := *l
	if l.Algorithm == limiter.MinInterval {
		part.Window = limiter.MaxWindow
		if l.Window <= limiter.MaxWindow/time.Duration(s.n) {
			part.Window = l.Window * time.Duration(s.n)
		}
		if l.Ceiling > 0 {
			part.Ceiling = max(l.Ceiling, part.Window)
		}
	} else {
		part.Events = max(l.Events/s.n, 1)
		if l.Burst > 0 {
			part.Burst = max(l.Burst/s.n, 1)
		}
	}
	known, _ := s.limits.LoadOrStore(l, &part)
	return known.(*limiter.Limit)
}

// ask returns what an ask comes to in the share of its limit.
func (s *share) ask(a limiter.Ask) limiter.Ask {
	whole := a.Limit
	a.Limit = s.of(whole)
	if a.Cost <= whole.Max() {
		a.Cost = min(a.Cost, a.Limit.Max())
	}
	return a
}

// asks calls do with what asks come to.
func (s *share) asks(asks []limiter.Ask, do func(asks []limiter.Ask) error) error {
	room, ok := s.rooms.Get().(*[]limiter.Ask)
	if !ok {
		room = new([]limiter.Ask)
	}
	for _, a := range asks {
		*room = append(*room, s.ask(a))
	}
	err := do(*room)
	clear(*room)
	*room = (*room)[:0]
	s.rooms.Put(room)
	return err
}

// Take asks the shares.
func (s *share) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	return s.asks(asks, func(asks []limiter.Ask) error { return s.store.Take(ctx, asks, results) })
}

// Release gives leases back to the shares.
func (s *share) Release(ctx context.Context, asks []limiter.Ask) error {
	return s.asks(asks, func(asks []limiter.Ask) error { return s.store.Release(ctx, asks) })
}

// Adjust corrects the shares.
func (s *share) Adjust(ctx context.Context, changes []limiter.Change) error {
	parts := make([]limiter.Change, len(changes))
	for i, c := range changes {
		most := c.Limit.Max()
		c.Limit = s.of(c.Limit)
		if -most <= c.Delta && c.Delta <= most {
			c.Delta = max(min(c.Delta, c.Limit.Max()), -c.Limit.Max())
		}
		parts[i] = c
	}
	return s.store.Adjust(ctx, parts)
}

// Reset forgets a key's share.
func (s *share) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	return s.store.Reset(ctx, s.of(l), key)
}

var _ limiter.Store = (*share)(nil)
