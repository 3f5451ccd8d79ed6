package config

import (
	"sync/atomic"
	"time"
)

// live is what runs: the last configuration that was started.
var live atomic.Pointer[Shared]

// Live returns what the handlers of the running configuration share; nil before one runs, and after
// the last.
func Live() *Shared { return live.Load() }

// publish makes the configuration the one that runs, until retract is called. During a reload the new one
// is published before the old one is retracted.
func (s *Shared) publish() (retract func()) {
	live.Store(s)
	return func() { live.CompareAndSwap(s, nil) }
}

// Now is the time by which rules and bans end: the system's, or [Clock].
func Now() time.Time {
	if Clock != nil {
		return Clock()
	}
	return time.Now()
}

// List returns the shared block list. There always is one, though it may be closed, see [List.Use].
func (s *Shared) List() *List { return s.list }

// Gates returns the block handlers of the configuration.
func (s *Shared) Gates() []*Gate {
	s.gatesMu.Lock()
	defer s.gatesMu.Unlock()
	return append([]*Gate(nil), s.gates...)
}
