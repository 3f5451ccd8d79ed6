package layer

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A lane is the way to one server.
type lane struct {
	b *Breaker
	// gate grows each time that the lane opens or closes, and is odd while it is open: so a
	// call knows whether what it brings is about the same state of affairs.
	gate     atomic.Uint64
	failures atomic.Int32 // in a row
	// asked and answered count calls, so that one that failed can tell whether the server was silent
	// all the while.
	asked, answered atomic.Uint32

	mu       sync.Mutex
	subject  limiter.Ask // what probes look at
	watched  bool        // whether a goroutine is about it
	trial    bool        // whether one failure opens it
	reopened chan struct{}
}

func isOpen(gate uint64) bool { return gate&1 == 1 }

// A moment is how a lane was when a call began.
type moment struct {
	gate            uint64
	asked, answered uint32
}

// begin notes that a call begins when the gate is that.
func (l *lane) begin(gate uint64) moment {
	answered := l.answered.Load()
	return moment{gate, l.asked.Add(1), answered}
}

// replied notes that the server answered a call.
func (l *lane) replied() { l.answered.Add(1) }

// silent reports whether nobody was answered since then, though as many calls as open a lane by failing
// were made. The others are about to fail as well, and whoever waited for this one is not to wait again.
func (l *lane) silent(since moment) bool {
	return l.answered.Load() == since.answered && l.asked.Load()-since.asked >= mostFailures-1
}

// failed notes that a call failed which began at that moment.
func (l *lane) failed(began moment, err error, a *limiter.Ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate.Load() != began.gate {
		return
	}
	if l.failures.Add(1) >= mostFailures || l.silent(began) || l.trial {
		l.open(err)
	}
	l.watch(a)
}

// suspected has the server probed for the sake of a call that may have failed elsewhere.
func (l *lane) suspected(a *limiter.Ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch(a)
}

// watch starts a goroutine that is about the lane, unless there is one. l.mu is held.
func (l *lane) watch(a *limiter.Ask) {
	if l.watched || l.b.ctx.Err() != nil {
		return
	}
	l.subject = limiter.Ask{Limit: a.Limit, Key: a.Key}
	l.watched = true
	go l.run()
}

// open opens the lane. l.mu is held.
func (l *lane) open(err error) {
	if isOpen(l.gate.Load()) {
		return
	}
	l.gate.Add(1)
	again := l.trial
	l.trial = false
	l.b.opened(err, again)
	select {
	case l.reopened <- struct{}{}:
	default:
	}
}

// run probes the server until it has been well for a while.
func (l *lane) run() {
	for rest := firstRest; ; {
		well, tried := l.probe()
		if well && l.calmsDown(tried) {
			return
		}
		// Also if a call has opened it again: a server that answers probes, and nothing
		// else, is not asked more often than one that is away.
		if !l.wait(jitter(rest), nil) {
			return
		}
		rest = min(2*rest, longestRest)
	}
}

// probe looks at a key, and opens or closes the lane as the answer says. It reports whether the
// lane is closed, and how the gate then is.
func (l *lane) probe() (well bool, gate uint64) {
	gate = l.gate.Load()
	ask, result := [1]limiter.Ask{l.subject}, [1]limiter.Result{}
	err := l.b.store.Take(l.b.ctx, ask[:], result[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.gate.Load() != gate:
		// Calls have opened it meanwhile.
	case err != nil && l.b.o.Outage(err):
		l.open(err)
	case isOpen(gate):
		l.gate.Add(1)
		l.failures.Store(0)
		l.trial = true
		l.b.reclosed()
	}
	gate = l.gate.Load()
	return !isOpen(gate), gate
}

// calmsDown waits for a while, and reports whether the lane has not opened again by then: its
// trial is over, and nobody is about it any more.
func (l *lane) calmsDown(gate uint64) bool {
	select {
	case <-l.reopened: // some time ago
	default:
	}
	if l.gate.Load() == gate {
		l.wait(calm, l.reopened)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate.Load() != gate && l.b.ctx.Err() == nil {
		return false
	}
	l.watched = false
	if l.trial {
		l.trial = false
		l.b.calmed()
	}
	return true
}

// wait waits for so long, or until there is something from a channel. It reports whether there
// is any use in going on.
func (l *lane) wait(d time.Duration, or <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-or:
	case <-l.b.ctx.Done():
		return false
	}
	return true
}

// jitter returns a part of d by chance, half of it at least, so that many nodes that lost
// a server at once do not all come back at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }
