package layer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A slow store answers each call when it is told to, or fails it.
type slow struct {
	limiter.Store

	gate  chan error
	calls atomic.Int64
}

func (s *slow) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	s.calls.Add(1)
	if err := <-s.gate; err != nil {
		return err
	}
	return s.Store.Take(ctx, asks, results)
}

// Those who come while a trip is under way share the next one.
func TestReservesCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.SlidingLog, 1000, 16, time.Minute)
		store := &slow{Store: memory(), gate: make(chan error, 100)}
		v := NewReserves(store, ReservesOptions{})
		for range 3 {
			store.gate <- nil
			passes(t, v, one(l, "k"))
		}
		v.giveBack(t.Context(), true)
		store.calls.Store(0)
		var passed, failed atomic.Int64
		var crowd sync.WaitGroup
		ask := func(ctx context.Context) {
			results := make([]limiter.Result, 1)
			switch err := v.Take(ctx, []limiter.Ask{one(l, "k")}, results); {
			case errors.Is(err, limiter.ErrUnavailable):
				failed.Add(1)
			case err != nil:
				t.Error(err)
			case results[0].Allowed:
				passed.Add(1)
			}
		}
		// The client of the first one goes away, which concerns nobody else.
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			crowd.Go(func() { ask(ctx) })
			synctest.Wait()
		}
		cancel()
		store.gate <- nil
		store.gate <- nil
		crowd.Wait()
		if p, c := passed.Load(), store.calls.Load(); p != 100 || c != 2 {
			t.Errorf("%d of 100 passed by %d calls, want all by 2", p, c)
		}
		v.giveBack(t.Context(), true)
		store.gate <- nil
		if n := leftOf(t, store, l, "k"); n != 1000-103 {
			t.Errorf("%d left, want %d", n, 1000-103)
		}

		// A trip that fails fails those who wait for the next one as well, at once.
		store.calls.Store(0)
		for range 100 {
			crowd.Go(func() { ask(t.Context()) })
			synctest.Wait()
		}
		store.gate <- errDown
		crowd.Wait()
		if f, c := failed.Load(), store.calls.Load(); f != 100 || c != 1 {
			t.Errorf("%d of 100 failed by %d calls, want all by 1", f, c)
		}
		store.gate <- nil
		if n := leftOf(t, store, l, "k"); n != 1000-103 {
			t.Errorf("%d left after a failure, want %d", n, 1000-103)
		}
	})
}

// A crowd that is more than what is left is decided one by one, and exactly.
func TestReservesCrowdAtTheEnd(t *testing.T) {
	l := reserveOf(limiter.SlidingLog, 100, 16, time.Hour)
	store := memory()
	a, b := NewReserves(store, ReservesOptions{}), NewReserves(store, ReservesOptions{})
	var passed atomic.Int64
	var crowd sync.WaitGroup
	for i := range 16 {
		v := a
		if i%2 == 1 {
			v = b
		}
		crowd.Go(func() {
			results := make([]limiter.Result, 1)
			for range 100 {
				if err := v.Take(context.Background(), []limiter.Ask{one(l, "k")}, results); err != nil {
					t.Error(err)
				}
				if results[0].Allowed {
					passed.Add(1)
				}
			}
		})
	}
	crowd.Wait()
	a.giveBack(t.Context(), true)
	b.giveBack(t.Context(), true)
	left := leftOf(t, store, l, "k")
	if sum := passed.Load() + left; sum != 100 || passed.Load() < 85 {
		t.Errorf("%d passed and %d are left, want 100 together and hardly any left", passed.Load(), left)
	}
}

// Keys that nobody asks for any more make way, and a flood of new ones is decided exactly.
func TestReservesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.SlidingWindow, 50, 8, time.Minute)
		store := memory()
		v := NewReserves(store, ReservesOptions{MaxKeys: reserveShards})
		for i := range 3000 {
			if ok, _ := passes(t, v, one(l, fmt.Sprint(i))); !ok {
				t.Fatalf("key %d was refused", i)
			}
		}
		known := func() (n int) {
			for i := range v.shards {
				n += len(v.shards[i].keys)
			}
			return n
		}
		if n := known(); n > reserveShards {
			t.Errorf("%d keys are known, of at most %d", n, reserveShards)
		}
		time.Sleep(3 * longestHold)
		calls := &counted{Store: store}
		v.store = calls
		for range 20 {
			passes(t, v, one(l, "busy"))
		}
		if n := calls.takes.Load(); n > 12 {
			t.Errorf("%d calls for 20 requests: a busy key found no room", n)
		}
	})
}

// A reset forgets what is reserved, and tells nobody of it twice.
func TestReservesReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.SlidingWindow, 72, 8, time.Minute)
		store := memory()
		var freed []string
		v := NewReserves(store, ReservesOptions{Freed: func(l *limiter.Limit, key string) { freed = append(freed, l.Zone+" "+key) }})
		for range 10 {
			passes(t, v, one(l, "k"))
		}
		if err := v.Reset(t.Context(), l, "k"); err != nil {
			t.Fatal(err)
		}
		v.giveBack(t.Context(), true)
		if n := leftOf(t, v, l, "k"); n != 72 || len(freed) != 0 {
			t.Errorf("%d left after a reset, given back %q", n, freed)
		}
		for range 9 {
			passes(t, v, one(l, "k"))
		}
		v.giveBack(t.Context(), true)
		if n := leftOf(t, v, l, "k"); n != 63 || len(freed) != 1 || freed[0] != "hot k" {
			t.Errorf("%d left, given back %q", n, freed)
		}
		if err := v.Adjust(t.Context(), []limiter.Change{{Limit: l, Key: "k", Delta: -3}}); err != nil {
			t.Fatal(err)
		}
		if n := leftOf(t, v, l, "k"); n != 66 {
			t.Errorf("%d left after a grant of 3", n)
		}
	})
}

func TestReservesAllocateNothing(t *testing.T) {
	l := reserveOf(limiter.TokenBucket, 100_000_000, 1000_000, time.Minute)
	v := NewReserves(memory(), ReservesOptions{})
	asks, results := []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1)
	take := func() {
		if err := v.Take(context.Background(), asks, results); err != nil {
			t.Fatal(err)
		}
	}
	for range 10_000 {
		take()
	}
	for results[0].Origin != limiter.Cached {
		take()
	}
	if n := testing.AllocsPerRun(100, take); n > 0.2 {
		t.Errorf("%v allocations a request that is paid from a reserve", n)
	}
}

// However slowly a store answers, a request waits no longer than one timeout, for the trips of others
// and its own together, and is then undecided; the store is not asked in vain.
func TestReservesWaitOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, trip = 50 * time.Millisecond, 40 * time.Millisecond
		l := reserveOf(limiter.SlidingLog, 1000, 16, time.Minute)
		store := &tardy{Store: memory(), t: t}
		v := NewReserves(store, ReservesOptions{Timeout: timeout})
		for range 3 {
			passes(t, v, one(l, "k"))
		}
		v.giveBack(t.Context(), true)
		store.takes = trip
		var crowd sync.WaitGroup
		var decided, undecided atomic.Int64
		for range 300 {
			crowd.Go(func() {
				start := time.Now()
				switch err := v.Take(t.Context(), []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1)); {
				case err == nil:
					decided.Add(1)
				case errors.Is(err, limiter.ErrUnavailable):
					undecided.Add(1)
				default:
					t.Error(err)
				}
				if took := time.Since(start); took > timeout {
					t.Errorf("a request waited %s, want %s at most", took, timeout)
				}
			})
			pass(time.Millisecond)
		}
		crowd.Wait()
		if decided.Load() == 0 || undecided.Load() == 0 {
			t.Errorf("%d requests were decided and %d were not, want both", decided.Load(), undecided.Load())
		}
		v.giveBack(t.Context(), true)

		// Others have spent all that is left, and when the store says so there is no time to ask exactly.
		passes(t, store.Store, limiter.Ask{Limit: l, Key: "k", Cost: leftOf(t, store.Store, l, "k")})
		store.takes = timeout
		start := time.Now()
		err := v.Take(t.Context(), []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1))
		if took := time.Since(start); !errors.Is(err, errLate) || took != timeout {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

// A tardy store takes so long for each call, but no longer than its context's deadline.
type tardy struct {
	limiter.Store

	t     *testing.T
	takes time.Duration
}

func (s *tardy) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	end, ok := ctx.Deadline()
	if s.takes == 0 || !ok {
		return s.Store.Take(ctx, asks, results)
	}
	left := time.Until(end)
	if left <= 0 {
		s.t.Error("asked although there is no time left")
	}
	pass(min(left, s.takes))
	if left < s.takes {
		return errDown
	}
	return s.Store.Take(ctx, asks, results)
}
