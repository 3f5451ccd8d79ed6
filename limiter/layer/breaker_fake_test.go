package layer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// patience is how long a call to a server that hangs takes.
const patience = 50 * time.Millisecond

// servers is a store on several servers, each of which answers at once, or with an error, or
// hangs. Asks go to the server that is their key's first letter, counted from a.
type servers struct {
	mu    sync.Mutex
	errs  map[int]error
	hangs map[int]bool
	calls map[string]int // by what was called and the server
}

func newServers() *servers {
	return &servers{errs: map[int]error{}, hangs: map[int]bool{}, calls: map[string]int{}}
}

func (s *servers) lane(asks []limiter.Ask) int {
	n := int(asks[0].Key[0] - 'a')
	for i := range asks {
		if int(asks[i].Key[0]-'a') != n {
			return -1
		}
	}
	return n
}

// set says how a server answers from now on.
func (s *servers) set(n int, err error, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[n], s.hangs[n] = err, hangs
}

// called returns how often a server was called since it was last asked.
func (s *servers) called(what string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(what, n)
	times := s.calls[key]
	delete(s.calls, key)
	return times
}

func (s *servers) call(what, key string) error {
	n := int(key[0] - 'a')
	s.mu.Lock()
	s.calls[fmt.Sprint(what, n)]++
	err, hangs := s.errs[n], s.hangs[n]
	s.mu.Unlock()
	if hangs {
		pass(patience)
		return fmt.Errorf("i/o timeout: %w", limiter.ErrUnavailable)
	}
	return err
}

func (s *servers) Take(_ context.Context, asks []limiter.Ask, results []limiter.Result) error {
	var errs []error
	for i := range asks {
		what := "take"
		if asks[i].Cost == 0 {
			what = "probe"
		}
		errs = append(errs, s.call(what, asks[i].Key))
		results[i] = limiter.Result{Allowed: true}
	}
	return errors.Join(errs...)
}

func (s *servers) Release(_ context.Context, asks []limiter.Ask) (err error) {
	for i := range asks {
		err = errors.Join(err, s.call("release", asks[i].Key))
	}
	return err
}

func (s *servers) Renew(_ context.Context, asks []limiter.Ask) (err error) {
	for i := range asks {
		err = errors.Join(err, s.call("renew", asks[i].Key))
	}
	return err
}

func (s *servers) Adjust(_ context.Context, changes []limiter.Change) (err error) {
	for i := range changes {
		err = errors.Join(err, s.call("adjust", changes[i].Key))
	}
	return err
}

func (s *servers) Reset(_ context.Context, _ *limiter.Limit, key string) error {
	return s.call("reset", key)
}

// heard is what a breaker told.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

// all returns what was told since it was last asked.
func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// is reports whether that, and nothing else, was told since it was last asked.
func (h *heard) is(t *testing.T, want ...string) {
	t.Helper()
	if got := h.all(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// breaking runs a test in a bubble with a breaker before a store.
func breaking(t *testing.T, test func(t *testing.T, s *servers, b *Breaker, h *heard)) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newServers(), new(heard)
		b := NewBreaker(s, BreakerOptions{
			Lane:   s.lane,
			Outage: func(err error) bool { return !errors.Is(err, errOdd) },
			Down:   func(err error) { h.say("down: %v", err) },
			Up:     func(outage time.Duration) { h.say("up after %s", outage.Truncate(patience)) },
			Odd:    func(err error) { h.say("odd: %v", err) },
			State:  func(s BreakerState) { h.say("%d", s) },
		})
		test(t, s, b, h)
		b.Close()
		pass(time.Minute)
	})
}

var (
	errOdd     = fmt.Errorf("wrong type: %w", limiter.ErrUnavailable)
	errRefused = fmt.Errorf("connection refused: %w", limiter.ErrUnavailable)
)

var quota = &limiter.Limit{Zone: "api", Algorithm: limiter.FixedWindow, Events: 5, Window: time.Second}

// try takes once, and returns the error and how long that took.
func (b *Breaker) try(keys ...string) (time.Duration, error) {
	var asks []limiter.Ask
	for _, key := range keys {
		asks = append(asks, limiter.Ask{Limit: quota, Key: key, Cost: 1})
	}
	start := time.Now()
	err := b.Take(context.Background(), asks, make([]limiter.Result, len(asks)))
	return time.Since(start), err
}
