package layer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Of several servers one is lost: what the others have goes on, what needs it fails at once, and it
// alone is probed.
func TestBreakerLanes(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		s.set(1, nil, true)
		for range 50 {
			_, _ = b.try("a", "b")
			_, _ = b.try("b")
			if _, err := b.try("a"); err != nil {
				t.Error(err)
			}
			if _, err := b.try("a", "c"); err != nil {
				t.Error(err)
			}
		}
		h.is(t, "down: i/o timeout: store unavailable", "2")
		for _, keys := range [][]string{{"b"}, {"a", "b"}, {"b", "c"}} {
			if took, err := b.try(keys...); took > 0 || !errors.Is(err, errOpen) {
				t.Errorf("%q: %v after %s", keys, err, took)
			}
		}
		s.called("take", 1)
		pass(time.Minute)
		if n := s.called("take", 1); n > 0 {
			t.Errorf("%d calls of a lost server", n)
		}
		if n := s.called("probe", 0) + s.called("probe", 2); n > 4 {
			t.Errorf("%d probes of servers that are well", n)
		}
		// Another one is lost meanwhile: it is one outage, until both are back.
		s.set(2, errRefused, false)
		_, _ = b.try("c")
		pass(time.Second)
		s.set(1, nil, false)
		pass(2 * calm)
		h.is(t)
		s.set(2, nil, false)
		pass(2 * calm)
		if told := h.all(); len(told) != 3 || told[0] != "1" || told[2] != "0" {
			t.Errorf("told %q, want the half-open state, an end and the closed state", told)
		}
	})
}

// Asks whose server is not known have a lane of their own.
func TestBreakerUnknownLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		for _, n := range []int{-1, -7, mostLanes, 1 << 40} {
			b := NewBreaker(s, BreakerOptions{Lane: func([]limiter.Ask) int { return n }})
			s.set(0, errRefused, false)
			for range 5 {
				_, _ = b.try("a")
			}
			if _, err := b.try("a"); !errors.Is(err, errOpen) {
				t.Errorf("lane %d: %v", n, err)
			}
			s.set(0, nil, false)
			pass(time.Second)
			if _, err := b.try("a"); err != nil {
				t.Errorf("lane %d: %v", n, err)
			}
			b.Close()
		}
	})
}

// The other calls keep off a server that is away, have it probed when they fail, and do their
// work where they can.
func TestBreakerOtherMethods(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		ctx := context.Background()
		calls := map[string]func() error{
			"reset": func() error { return b.Reset(ctx, quota, "b") },
			"adjust": func() error {
				return b.Adjust(ctx, []limiter.Change{{Limit: quota, Key: "a", Delta: -1}, {Limit: quota, Key: "b", Delta: -1}})
			},
			"release": func() error {
				return b.Release(ctx, []limiter.Ask{{Limit: quota, Key: "b"}, {Limit: quota, Key: "a"}})
			},
		}
		for what, call := range calls {
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			s.set(1, errRefused, false)
			if err := call(); !errors.Is(err, errRefused) {
				t.Errorf("%s: %v", what, err)
			}
			synctest.Wait()
			h.is(t, "down: connection refused: store unavailable", "2")
			s.called(what, 0)
			s.called(what, 1)
			if err := call(); !errors.Is(err, errOpen) {
				t.Errorf("%s: %v", what, err)
			}
			if n := s.called(what, 1); n != 0 {
				t.Errorf("%s: the server that is away was called", what)
			}
			if n := s.called(what, 0); n != 1 && what != "reset" {
				t.Errorf("%s: the server that is well was called %d times", what, n)
			}
			s.set(1, nil, false)
			pass(3 * calm)
			h.all()
		}
		if err := b.Adjust(ctx, nil); err != nil {
			t.Error(err)
		}
		if err := b.Release(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}

// After Close nobody is about the store any more.
func TestBreakerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers(), new(heard)
		b := NewBreaker(s, BreakerOptions{State: func(s BreakerState) { h.say("%d", s) }})
		s.set(0, errRefused, false)
		for range 5 {
			_, _ = b.try("a")
		}
		synctest.Wait()
		b.Close()
		synctest.Wait()
		s.called("probe", 0)
		pass(time.Minute)
		if n := s.called("probe", 0); n > 0 {
			t.Errorf("%d probes", n)
		}
		if _, err := b.try("a"); !errors.Is(err, errRefused) {
			t.Errorf("got %v, want the store's own", err)
		}
		h.is(t, "2", "0")
	})
}

// Many servers that come and go while many ask: told in turn, and well in the end.
func TestBreakerRace(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for n := range 400 {
					if i < 2 {
						s.set(i, []error{nil, errRefused}[n/20%2], n/40%3 == 1)
						pass(20 * time.Millisecond)
					}
					_, _ = b.try([]string{"a", "b"}[(i+n)%2])
					if n%10 == 0 {
						_, _ = b.try("a", "b")
					}
					pass(time.Millisecond)
				}
			})
		}
		wg.Wait()
		s.set(0, nil, false)
		s.set(1, nil, false)
		pass(5 * calm)
		for _, key := range []string{"a", "b"} {
			if _, err := b.try(key); err != nil {
				t.Error(err)
			}
		}
		down, told := false, h.all()
		for _, line := range told {
			d, u := strings.HasPrefix(line, "down"), strings.HasPrefix(line, "up")
			if d && down || u && !down {
				t.Fatalf("told out of turn: %q", told)
			}
			down = (down || d) && !u
		}
		if len(told) < 4 || down || told[len(told)-1] != "0" {
			t.Errorf("in the end: %q", told)
		}
	})
}

// Leases are renewed through a breaker, but for those on a server that is known to be away, which
// costs nothing.
func TestBreakerRenews(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, _ *heard) {
		renew := func(keys ...string) error {
			var asks []limiter.Ask
			for _, key := range keys {
				asks = append(asks, limiter.Ask{Limit: limitOf(limiter.InFlight), Key: key, Lease: "lease"})
			}
			return b.Renew(t.Context(), asks)
		}
		if err := renew("a", "b"); err != nil {
			t.Fatal(err)
		}
		s.set(0, errRefused, false)
		for range mostFailures {
			_, _ = b.try("a")
		}
		s.called("renew", 0)
		s.called("renew", 1)
		if err := renew("a", "b", "b"); !errors.Is(err, errOpen) {
			t.Errorf("with one server away: %v", err)
		}
		if err := renew("a"); !errors.Is(err, errOpen) {
			t.Errorf("to a server that is away: %v", err)
		}
		if a, b := s.called("renew", 0), s.called("renew", 1); a != 0 || b != 2 {
			t.Errorf("%d renewals went to the server that is away, and %d to the other, want 0 and 2", a, b)
		}
		// The first renewal that fails has its server probed, as any other call does.
		s.called("probe", 1)
		s.set(1, errRefused, false)
		if err := renew("b"); !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := s.called("probe", 1); n != 1 {
			t.Errorf("%d probes of the server that failed, want 1", n)
		}
		s.set(0, nil, false)
		s.set(1, nil, false)
		pass(longestRest)
		if err := renew("a", "b"); err != nil {
			t.Errorf("with all servers back: %v", err)
		}
	})
}

// A store that cannot renew leases says so.
func TestBreakerCannotRenew(t *testing.T) {
	b := NewBreaker(new(recorder), BreakerOptions{})
	defer b.Close()
	if err := b.Renew(t.Context(), asks); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
