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
		p.shard.Lock()
		now := s.now()
		// The lease may stand among those of the keys that found no room.
		for _, id := range [...]uint64{p.id, p.overflow} {
			if at := p.shard.find(id); at != 0 {
				state := algorithm.Release(p.alg, now, p.shard.state(at), a)
				p.shard.keep(at, state, p.shard.entries.at(at).until)
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
	sh.Lock()
	defer sh.Unlock()
	now := s.now()
	s.reserve(p, a, now)
	if p.at == 0 {
		return
	}
	state, held := algorithm.Renew(p.alg, now, sh.state(p.at), a)
	until := sh.entries.at(p.at).until
	if held {
		until = now.Add(a.Limit.Window)
	}
	sh.keep(p.at, state, until)
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
	sh.Lock()
	defer sh.Unlock()
	now := s.now()
	ask := limiter.Ask{Limit: c.Limit, Key: c.Key, Cost: c.Delta}
	if c.Delta > 0 {
		s.reserve(p, &ask, now)
	} else {
		p.at = sh.find(p.id)
	}
	if p.at != 0 {
		sh.hold(p.at, now)
		state, r := algorithm.Adjust(p.alg, now, sh.state(p.at), c)
		sh.keep(p.at, state, now.Add(r.Reset))
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

// keep saves a state, or removes its entry if there is none.
func (sh *shard) keep(n uint32, state []byte, until limiter.Instant) {
	sh.save(n, state, until)
	if len(state) == 0 {
		sh.remove(n)
	}
}
