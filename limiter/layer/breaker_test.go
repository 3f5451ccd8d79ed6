package layer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// L91: a server that hangs costs the requests that come before it is known one patience each, and
// then nothing, however long it lasts; nor does the probing grow. L103: its return is found without
// any request.
func TestBreakerHangs(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		if _, err := b.try("a"); err != nil {
			t.Fatal(err)
		}
		h.is(t)
		goroutines := runtime.NumGoroutine()
		s.set(0, nil, true)
		slow := 0
		for range 20 {
			took, err := b.try("a")
			if !errors.Is(err, limiter.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			if took > 0 {
				slow++
			}
			if took > patience {
				t.Errorf("a call took %s", took)
			}
			pass(time.Millisecond)
		}
		if slow > 2 {
			t.Errorf("%d calls waited, want the first two at most", slow)
		}
		h.is(t, "down: i/o timeout: store unavailable", "2")
		s.called("take", 0)
		s.called("probe", 0)
		for range 3600 {
			pass(time.Second)
			if took, err := b.try("a"); took > 0 || !errors.Is(err, limiter.ErrUnavailable) {
				t.Fatalf("got %v after %s", err, took)
			}
			if n := runtime.NumGoroutine(); n > goroutines+1 {
				t.Fatalf("%d goroutines, %d before the outage", n, goroutines)
			}
		}
		if n := s.called("take", 0); n > 0 {
			t.Errorf("%d calls reached the server while it hung", n)
		}
		if n := s.called("probe", 0); n < 3600 || n > 4*3600 {
			t.Errorf("%d probes in an hour", n)
		}
		h.is(t)
		s.set(0, nil, false)
		pass(longestRest + patience)
		h.is(t, "1")
		if took, err := b.try("a"); took > 0 || err != nil {
			t.Errorf("half a second after its return: %v", err)
		}
		pass(calm)
		h.is(t, "up after "+h.outage(time.Hour), "0")
	})
}

// outage is how the last outage's length was told, if that is about d.
func (h *heard) outage(d time.Duration) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.lines {
		var text string
		if n, _ := fmt.Sscanf(line, "up after %s", &text); n == 1 {
			if got, err := time.ParseDuration(text); err == nil && got >= d && got < d+5*time.Second {
				return text
			}
		}
	}
	return "about " + d.String()
}

// A crowd that comes while a server hangs waits once, all at the same time, and a crowd that
// comes back meets a server that has answered.
func TestBreakerCrowd(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		const clients = 1000
		s.set(0, nil, true)
		for round := range 5 {
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					took, err := b.try("a")
					if !errors.Is(err, limiter.ErrUnavailable) || took > patience || round > 1 && took > 0 {
						t.Errorf("round %d: %v after %s", round, err, took)
					}
				})
			}
			wg.Wait()
			pass(time.Millisecond)
		}
		if n := s.called("take", 0); n > 2*clients {
			t.Errorf("%d calls", n)
		}
		h.is(t, "down: i/o timeout: store unavailable", "2")
	})
}

// While others ask a server that has stopped to answer, the first failure opens the lane: whoever waited
// for that does not wait again. One failure among answers, or of a call that was alone, opens nothing.
func TestBreakerSilence(t *testing.T) {
	for _, c := range []struct {
		name    string
		others  int  // that ask while the first one waits
		answers bool // whether one of them is answered
		waits   time.Duration
	}{
		{"alone", 0, false, patience},
		{"one more", 1, false, patience},
		{"two more", mostFailures - 1, false, 0},
		{"a crowd", 100, false, 0},
		{"a crowd, and an answer", 100, true, patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			breaking(t, func(t *testing.T, s *servers, b *Breaker, _ *heard) {
				s.set(0, nil, true)
				var again time.Duration
				var wg sync.WaitGroup
				wg.Go(func() {
					_, _ = b.try("a")
					again, _ = b.try("a")
				})
				pass(patience / 4)
				for range c.others {
					wg.Go(func() { _, _ = b.try("a") })
				}
				pass(patience / 4)
				if c.answers {
					s.set(0, nil, false)
					if _, err := b.try("a"); err != nil {
						t.Error(err)
					}
					s.set(0, nil, true)
				}
				wg.Wait()
				if again != c.waits {
					t.Errorf("whoever waited waits for %s again, want %s", again, c.waits)
				}
			})
		})
	}
}

// A server that refuses at once opens its lane with the probe that follows the first failure, or
// with the third.
func TestBreakerRefuses(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		s.set(0, errRefused, false)
		for range 100 {
			_, _ = b.try("a")
		}
		if n := s.called("take", 0); n > mostFailures {
			t.Errorf("%d calls", n)
		}
		synctest.Wait()
		h.is(t, "down: connection refused: store unavailable", "2")
		pass(10 * time.Second)
		s.set(0, nil, false)
		pass(2 * calm)
		h.is(t, "1", "up after "+h.outage(10*time.Second), "0")
		if _, err := b.try("a"); err != nil {
			t.Error(err)
		}
	})
}

// One failure among many calls opens nothing, and nobody is told.
func TestBreakerHiccup(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		for range 10 {
			s.set(0, errRefused, false)
			_, _ = b.try("a")
			s.set(0, nil, false)
			for range 10 {
				if _, err := b.try("a"); err != nil {
					t.Error(err)
				}
				pass(100 * time.Millisecond)
			}
		}
		h.is(t)
	})
}

// Errors about one key or command open nothing, however many they are.
func TestBreakerOddErrors(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		for range 5 {
			s.set(0, errOdd, false)
			if _, err := b.try("a"); !errors.Is(err, errOdd) {
				t.Errorf("got %v", err)
			}
		}
		s.set(0, nil, false)
		if _, err := b.try("a"); err != nil {
			t.Error(err)
		}
		pass(10 * calm)
		odd := "odd: wrong type: store unavailable"
		h.is(t, odd, odd, odd, odd, odd)
	})
}

// A server that answers probes and fails calls is one outage that is told of once.
func TestBreakerFlaps(t *testing.T) {
	breaking(t, func(t *testing.T, s *servers, b *Breaker, h *heard) {
		writes := &failing{Store: s}
		b.store = writes
		writes.fail.Store(true)
		calls := 0
		for range 600 {
			if _, err := b.try("a"); errors.Is(err, errRefused) {
				calls++
			}
			pass(100 * time.Millisecond)
		}
		if calls > 60*10/2 {
			t.Errorf("%d calls reached the server in a minute", calls)
		}
		told := h.all()
		if told[0] != "down: connection refused: store unavailable" || slices.Contains(told[1:], "0") {
			t.Errorf("told %q", told)
		}
		writes.fail.Store(false)
		for range 10 {
			pass(calm / 4)
			_, _ = b.try("a")
		}
		if told = h.all(); len(told) < 2 || told[len(told)-1] != "0" || slices.Contains(told[:len(told)-2], "0") {
			t.Errorf("in the end: told %q", told)
		}
	})
}

// failing is a store that fails what is not a look.
type failing struct {
	limiter.Store

	fail atomic.Bool
}

func (f *failing) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if f.fail.Load() && asks[0].Cost > 0 {
		return errRefused
	}
	return f.Store.Take(ctx, asks, results)
}

func TestBreakerContract(t *testing.T) {
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		store := memstore.New(memstore.Options{Now: now})
		b := NewBreaker(store, BreakerOptions{})
		t.Cleanup(b.Close)
		return renewing{b, store}
	})
}

func TestBreakerAllocations(t *testing.T) {
	b := NewBreaker(AllowAll{}, BreakerOptions{})
	results := make([]limiter.Result, len(asks))
	if n := testing.AllocsPerRun(100, func() { _ = b.Take(context.Background(), asks, results) }); n > 0 {
		t.Errorf("%v allocations while the store is well, want none", n)
	}
}

func BenchmarkBreaker(b *testing.B) {
	closed := NewBreaker(AllowAll{}, BreakerOptions{})
	open := NewBreaker(&recorder{err: errDown}, BreakerOptions{})
	defer closed.Close()
	defer open.Close()
	for range mostFailures {
		_, _ = open.try("a")
	}
	for _, c := range []struct {
		name  string
		store limiter.Store
	}{{"without", AllowAll{}}, {"closed", closed}, {"open", open}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				results := make([]limiter.Result, len(asks))
				for p.Next() {
					_ = c.store.Take(context.Background(), asks, results)
				}
			})
		})
	}
}
