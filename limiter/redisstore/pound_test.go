package redisstore

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A pounding asks for many subjects from many goroutines without a pause, and keeps the
// accounts.
type pounding struct {
	t        *testing.T
	stores   []*Store
	asks     func(subject string) []limiter.Ask
	subjects int

	stop chan struct{}
	wg   sync.WaitGroup

	mu       sync.Mutex
	passed   map[string]int64 // by subject
	calls    int
	failures int
	last     error         // of the failures
	worst    time.Duration // of all calls
	late     time.Duration // by how much the machine woke somebody up too late
}

// pound begins; end or the test's end stops it.
func pound(t *testing.T, stores []*Store, subjects int, asks func(subject string) []limiter.Ask) *pounding {
	p := &pounding{
		t: t, stores: stores, asks: asks, subjects: subjects,
		stop: make(chan struct{}), passed: make(map[string]int64),
	}
	for i := range 8 {
		p.wg.Go(func() { p.run(stores[i%len(stores)]) })
	}
	p.wg.Go(p.watch)
	t.Cleanup(p.end)
	return p
}

func (p *pounding) run(s *Store) {
	for {
		select {
		case <-p.stop:
			return
		default:
		}
		subject := strconv.Itoa(rand.IntN(p.subjects))
		asks := p.asks(subject)
		start := time.Now()
		d, err := limiter.Take(background, s, asks, make([]limiter.Result, len(asks)))
		took := time.Since(start)
		p.mu.Lock()
		p.calls++
		p.worst = max(p.worst, took)
		switch {
		case err != nil && !isUnavailable(err):
			p.t.Error(err)
		case err != nil:
			p.failures++
			p.last = err
		case d.Allowed:
			p.passed[subject]++
		}
		p.mu.Unlock()
	}
}

// watch measures how long the machine lets those wait who should run.
func (p *pounding) watch() {
	for {
		start := time.Now()
		select {
		case <-p.stop:
			return
		case <-time.After(time.Millisecond):
		}
		p.mu.Lock()
		p.late = max(p.late, time.Since(start)-time.Millisecond)
		p.mu.Unlock()
	}
}

// decided waits until so many more calls were decided, and returns how many were not
// meanwhile.
func (p *pounding) decided(n int) (failures int) {
	p.t.Helper()
	p.mu.Lock()
	calls, failed := p.calls-p.failures, p.failures
	p.mu.Unlock()
	eventually(p.t, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.calls-p.failures < calls+n {
			if p.last != nil {
				return p.last
			}
			return errNotYet
		}
		failures = p.failures - failed
		return nil
	})
	return failures
}

// recovered waits until all stores are well again, and wants them to decide from then on, save for
// calls that were under way, and those whose connections a server closes once more as it settles.
func (p *pounding) recovered(well func(s *Store) error) {
	p.t.Helper()
	for _, s := range p.stores {
		eventually(p.t, func() error { return well(s) })
	}
	const n = 2000
	if failures := p.decided(n); failures > n/50 {
		p.t.Errorf("%d calls were not decided after all was well: %v", failures, p.last)
	}
}

// counts returns what passed so far, and begins a new account.
func (p *pounding) counts() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.passed
	p.passed = make(map[string]int64)
	return passed
}

func (p *pounding) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.wg.Wait()
}

// inTime wants that no call waited for more than its timeout: one that waits for two things in turn,
// each as long, takes two. What is wanted lies between, where no machine is late by as much as half of
// the timeout; if it is, that is allowed for.
func (p *pounding) inTime(timeout time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Logf("%d calls, %d not decided (%v); the longest took %s, while the machine was up to %s late",
		p.calls, p.failures, p.last, p.worst, p.late)
	if most := timeout + timeout/2 + 4*p.late; p.worst > most {
		p.t.Errorf("a call took %s, want at most %s", p.worst, most)
	}
}

// within wants that no subject passed more often than it may.
func within(t *testing.T, what string, passed map[string]int64, most int64) {
	t.Helper()
	for subject, n := range passed {
		if n > most {
			t.Errorf("%s: %d passed for %s, want at most %d", what, n, subject, most)
		}
	}
}
