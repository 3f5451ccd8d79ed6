package config

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// lose has every call fail that is about a key, among others.
func (f *far) lose(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = key
}

// In a cluster that has lost a node, leases on the others are renewed and given back all the
// same, whichever come first.
func TestLeasesOfOneNodeAreLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		var lost, well []*lease
		for range 2 * leaseBatch {
			lost = append(lost, l.hold(seat("a")))
		}
		for range 3 {
			well = append(well, l.hold(seated(t, s, "b")))
		}
		s.lose("a")
		pass(2 * LeaseTTL)
		if n := left(t, s, "b"); n != 0 {
			t.Errorf("%d places free, want 0: requests on nodes that are well have lost theirs", n)
		}
		for _, one := range append(lost, well...) {
			l.end(one)
		}
		pass(2 * LeaseTTL / leaseTicks)
		if n := left(t, s, "b"); n != 3 {
			t.Errorf("%d places free, want 3: those on nodes that are well were not given back", n)
		}
		pass(LeaseTTL)
	})
}

// A node that is lost holds nobody up who wants a place on another: give-backs that fail are
// tried again beside those that come.
func TestLostNodeHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		s.lose("a")
		for range 100 {
			l.stray(seat("a"))
			l.end(l.hold(seat("a")))
			pass(time.Millisecond)
			l.end(l.hold(seated(t, s, "b")))
			pass(returnWait / 2)
			if n := left(t, s, "b"); n != 3 {
				t.Errorf("%d places free, want 3: a place was not given back at once", n)
				break
			}
		}
		pass(2 * LeaseTTL)
	})
}

// slowness is how long a slow store takes to answer.
const slowness = 4 * returnWait

// A slowStore counts how often it is asked.
type slowStore struct {
	limiter.Store

	asked int
}

func (s *slowStore) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	s.asked++
	defer pass(slowness)
	return s.Store.Take(ctx, asks, results)
}

// A store that takes long is not asked a second time, though a place has been given back
// meanwhile: the request has waited enough.
func TestSlowStoreIsAskedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newFar()
		l := newLessor(s, false)
		held := l.hold(seated(t, s, "a"))
		seated(t, s, "a")
		seated(t, s, "a")
		s.each(func() { pass(time.Millisecond) })
		l.end(held)
		slow := &slowStore{Store: s}
		start := time.Now()
		d, err := lessors{first: l}.take(t.Context(), slow, []limiter.Ask{seat("a")}, make([]limiter.Result, 1))
		if err != nil || d.Allowed || slow.asked != 1 || time.Since(start) != slowness {
			t.Errorf("allowed %t after %s and %d steps, %v", d.Allowed, time.Since(start), slow.asked, err)
		}
		synctest.Wait()
		if n := left(t, s, "a"); n != 1 {
			t.Errorf("%d places free, want 1", n)
		}
	})
}
