package config

import (
	"context"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
)

const (
	// settleBatch is the most changes that one call settles.
	settleBatch = 256
	// mostUnsettled is the most changes that wait for their call: beyond it, as while a
	// store hangs, requests have paid what was reserved.
	mostUnsettled = 16_384
	// settleFarewell is the longest that changes which wait delay the process's end.
	settleFarewell = time.Second
)

// settlers correct what the stores of one handler have counted.
type settlers struct {
	first  *settler // of the store that is asked first
	second *settler // of the one that stands in for it; nil if that counts nothing
}

// of returns the settler of the store that gave a result.
func (s settlers) of(o limiter.Origin) *settler {
	if o == limiter.Local {
		return s.second
	}
	return s.first
}

// A settler corrects what a store has counted, off the path of requests. Changes that come
// while a call is on its way share the next one.
//
// A change is applied once or not at all: after a call that failed nobody knows whether it
// was, and so it is not repeated. Then the request has paid what was reserved for it.
type settler struct {
	store limiter.Store
	// near is set if the store is in this process: it is then called at once.
	near bool

	mu      sync.Mutex
	waiting []limiter.Change
	idle    chan struct{} // closed while nothing is on its way
}

func newSettler(s limiter.Store, near bool) *settler {
	idle := make(chan struct{})
	close(idle)
	return &settler{store: s, near: near, idle: idle}
}

// add has a change applied soon. A nil settler has nothing to correct.
func (s *settler) add(c limiter.Change) {
	if s == nil {
		return
	}
	if s.near {
		_ = s.store.Adjust(context.Background(), []limiter.Change{c})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= mostUnsettled {
		return
	}
	s.waiting = append(s.waiting, c)
	select {
	case <-s.idle:
		s.idle = make(chan struct{})
		// Its requests may outlive the configuration, and so may what is left of them:
		// the goroutine lasts as long as there are changes.
		go s.run()
	default:
	}
}

// run applies changes until none waits.
func (s *settler) run() {
	for {
		s.mu.Lock()
		batch := s.waiting
		s.waiting = nil
		if len(batch) == 0 {
			close(s.idle)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for len(batch) > 0 {
			n := min(len(batch), settleBatch)
			_ = s.store.Adjust(context.Background(), batch[:n])
			batch = batch[n:]
		}
	}
}

// await waits until nothing is on its way, but not for long.
func (s *settler) await(within time.Duration) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(within):
	}
}

// settlers returns what corrects the stores that decide: each what it has counted itself, since the
// other knows nothing of it. So what Redis counted is not corrected while Redis is away.
func (s *Shared) settlers(onStoreError string) settlers {
	if known, ok := s.settled[onStoreError]; ok {
		return known
	}
	var made settlers
	if s.redis == nil {
		made.first = newSettler(s.memory, true)
	} else {
		// No limit that is settled is reserved of, or counted afterwards.
		made.first = newSettler(s.pooled.refusals.Around(s.pooled.breaker), false)
		if onStoreError == local {
			made.second = newSettler(layer.Share(s.app.Instances, s.memory), true)
		}
	}
	s.settled[onStoreError] = made
	return made
}
