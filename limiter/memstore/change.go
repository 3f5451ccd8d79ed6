package memstore

import (
	"context"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// Release gives leases back. See [limiter.Store].
func (s *Store) Release(_ context.Context, asks []limiter.Ask) error {
	for i := range asks {
		a := &asks[i]
		if a.Limit.Algorithm != limiter.InFlight {
			continue
		}
		var p place
		if _, err := s.locate(&p, a.Limit, a.Key); err != nil {
			return err
		}
		now := s.enter(p.shard)
		// The lease may stand among those of the keys that found no room.
		for _, id := range [...]uint64{p.id, p.overflow()} {
			if at := p.shard.find(id); at != 0 {
				e := p.shard.entries.at(at)
				p.at = at
				p.keep(e, algorithm.Release(p.alg, now, p.shard.state(e), a), true, e.until)
			}
		}
		p.shard.Unlock()
	}
	return nil
}

// Renew holds leases for another window. One of a key that had found no room may be taken
// once more, in a place of the key's own, if there now is one. See [limiter.Renewer].
func (s *Store) Renew(_ context.Context, asks []limiter.Ask) error {
	for i := range asks {
		a := &asks[i]
		if a.Limit.Algorithm != limiter.InFlight {
			continue
		}
		var p place
		if _, err := s.locate(&p, a.Limit, a.Key); err != nil {
			return err
		}
		s.renew(&p, a)
	}
	return nil
}

func (s *Store) renew(p *place, a *limiter.Ask) {
	sh := p.shard
	now := s.enter(sh)
	defer sh.Unlock()
	s.reserve(p, a, now)
	if p.at == 0 {
		return
	}
	e := sh.entries.at(p.at)
	state, held := algorithm.Renew(p.alg, now, sh.state(e), a)
	until := e.until
	if held {
		until = now.Add(a.Limit.Window)
	}
	p.keep(e, state, true, until)
}

// Adjust applies changes, each in a step of its own. What is given back to a key that shares
// the budget of those that found no room is lost. See [limiter.Store].
func (s *Store) Adjust(_ context.Context, changes []limiter.Change) error {
	for i := range changes {
		c := &changes[i]
		var p place
		if _, err := s.locate(&p, c.Limit, c.Key); err != nil {
			return err
		}
		s.adjust(&p, c)
	}
	return nil
}

func (s *Store) adjust(p *place, c *limiter.Change) {
	sh := p.shard
	now := s.enter(sh)
	defer sh.Unlock()
	ask := limiter.Ask{Limit: c.Limit, Key: c.Key, Cost: c.Delta}
	if c.Delta > 0 {
		s.reserve(p, &ask, now)
	} else {
		p.at = sh.find(p.id)
	}
	if p.at != 0 {
		e := sh.entries.at(p.at)
		sh.hold(e, now)
		state, r := algorithm.Adjust(p.alg, now, sh.state(e), c)
		p.keep(e, state, true, now.Add(r.Reset))
	}
}

// Reset forgets a key. See [limiter.Store].
func (s *Store) Reset(_ context.Context, l *limiter.Limit, key string) error {
	var p place
	if _, err := s.locate(&p, l, key); err != nil {
		return err
	}
	p.shard.Lock()
	defer p.shard.Unlock()
	if at := p.shard.find(p.id); at != 0 {
		p.shard.remove(at)
	}
	return nil
}
