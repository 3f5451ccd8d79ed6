package layer

import (
	"context"

	"github.com/weirhq/caddy-weir/limiter"
)

// Around returns a store that decides about asks of deferred limits from memory, and has outer
// decide about all others, in one step of both: a request that one of them refuses takes
// nothing from the other. What an allowed request took has to be settled when it has been
// served. The results of asks that are decided here say [limiter.Cached], and their Now is this
// process's clock.
//
// If a deferred limit refuses a request, its other asks only look, and cannot tell more than
// whether a cost of 1 would pass. Around a [DenyCache], what they say may be as old as its Cap.
//
// Adjust corrects what is counted here and sends the correction with the rest.
func (d *Deferred) Around(outer limiter.Store) limiter.Store { return &deferring{d, outer} }

type deferring struct {
	d     *Deferred
	outer limiter.Store
}

// Take implements [limiter.Store]. It allocates nothing and asks no store if all asks are
// of deferred limits, and under keys that were asked of late.
func (s *deferring) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	n := 0
	for i := range asks {
		if asks[i].Limit.Deferred > 0 {
			n++
		}
	}
	switch n {
	case 0:
		return s.outer.Take(ctx, asks, results)
	case len(asks):
		return s.d.take(ctx, asks, results)
	}
	here, there := part(asks, true), part(asks, false)
	err := s.both(ctx, here, there)
	for _, p := range []*parted{here, there} {
		for i, at := range p.at {
			results[at] = p.results[i]
		}
	}
	return err
}

// A parted is some of a request's asks.
type parted struct {
	asks    []limiter.Ask
	results []limiter.Result
	at      []int // where they stand in the request
}

func part(asks []limiter.Ask, deferred bool) *parted {
	p := new(parted)
	for i := range asks {
		if asks[i].Limit.Deferred > 0 == deferred {
			p.asks = append(p.asks, asks[i])
			p.at = append(p.at, i)
		}
	}
	p.results = make([]limiter.Result, len(p.asks))
	return p
}

func (s *deferring) both(ctx context.Context, here, there *parted) error {
	if err := s.d.take(ctx, here.asks, here.results); err != nil {
		return err
	}
	if refused(here.asks, here.results) {
		return beside(ctx, s.outer, there.asks, there.results)
	}
	err := s.outer.Take(ctx, there.asks, there.results)
	if err != nil || refused(there.asks, there.results) {
		s.d.giveBack(ctx, here.asks, here.results)
	}
	return err
}

// Release gives leases back. See [limiter.Store].
func (s *deferring) Release(ctx context.Context, asks []limiter.Ask) error {
	return s.outer.Release(ctx, asks)
}

// Adjust applies changes. See [limiter.Store].
func (s *deferring) Adjust(ctx context.Context, changes []limiter.Change) error {
	var rest []limiter.Change
	for i := range changes {
		if changes[i].Limit.Deferred <= 0 {
			rest = append(rest, changes[i])
		} else if err := s.d.change(ctx, &changes[i]); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return s.outer.Adjust(ctx, rest)
}

// Reset forgets a key. See [limiter.Store].
func (s *deferring) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	if l.Deferred > 0 {
		return s.d.Reset(ctx, l, key)
	}
	return s.outer.Reset(ctx, l, key)
}

var _ limiter.Store = (*deferring)(nil)
