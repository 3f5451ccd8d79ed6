package layer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// reserveOf returns a limit of which n are reserved at a time.
func reserveOf(algorithm string, events, n int64, window time.Duration) *limiter.Limit {
	return &limiter.Limit{Zone: "hot", Algorithm: algorithm, Events: events, Window: window, Reserve: n}
}

// memory returns an empty store in memory. Its clock is ahead of a bubble's, which begins
// before the marks of a sliding_window do.
func memory() *memstore.Store {
	return memstore.New(memstore.Options{Now: func() time.Time { return time.Now().Add(30 * 365 * 24 * time.Hour) }})
}

// passes asks for one event and reports whether it passed, with what is left.
func passes(t *testing.T, s limiter.Store, asks ...limiter.Ask) (bool, []limiter.Result) {
	t.Helper()
	results := make([]limiter.Result, len(asks))
	d, err := limiter.Take(context.Background(), s, asks, results)
	if err != nil {
		t.Fatal(err)
	}
	return d.Allowed, results
}

func one(l *limiter.Limit, key string) limiter.Ask { return limiter.Ask{Limit: l, Key: key, Cost: 1} }

// leftOf says what a store has left of a limit under a key.
func leftOf(t *testing.T, s limiter.Store, l *limiter.Limit, key string) int64 {
	t.Helper()
	_, results := passes(t, s, limiter.Ask{Limit: l, Key: key})
	return results[0].Remaining
}

func TestReservesContract(t *testing.T) {
	storetest.Exercise(t, func(_ testing.TB, now func() time.Time) limiter.Store {
		store := memstore.New(memstore.Options{MaxKeys: 10_000, Now: now})
		return renewed{NewReserves(store, ReservesOptions{Now: now}), store}
	})
}

// renewed is a layer with the Renewer of the store below it, as the contract wants.
type renewed struct {
	limiter.Store
	limiter.Renewer
}

// A tally keeps the moments, in microseconds, at which something passed.
type tally []int64

// most returns the most that passed in any span of a window.
func (log tally) most(window time.Duration) (most int) {
	first := 0
	for i := range log {
		for log[i]-log[first] >= window.Microseconds() {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Several nodes with reserves never let more pass together than the limit promises, in any
// window; and not much less.
func TestReservesOracle(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		events    int64
		most      int64 // in a window, in hundredths of the limit
	}{
		{limiter.SlidingWindow, 60, 100},
		{limiter.SlidingWindow, 1000, 100},
		{limiter.SlidingLog, 400, 100},
		{limiter.SlidingCounter, 400, 200},
		{limiter.FixedWindow, 400, 200},
		{limiter.TokenBucket, 400, 200},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d/%d", c.algorithm, c.events, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(c.events)))
				clock := storetest.NewClock()
				store := &counted{Store: memstore.New(memstore.Options{Now: clock.Now})}
				exact := memstore.New(memstore.Options{Now: clock.Now})
				l := reserveOf(c.algorithm, c.events, 16, time.Second)
				plain := *l
				plain.Reserve = 0
				var nodes [3]*Reserves
				for i := range nodes {
					nodes[i] = NewReserves(store, ReservesOptions{Now: clock.Now})
				}
				var log tally
				asked, could := 0, 0
				// Bursts of up to three times the limit's rate at one node after the other, and pauses.
				for range 60 {
					v := nodes[rng.IntN(len(nodes))]
					gap := time.Second / time.Duration(c.events) / time.Duration(1+rng.IntN(3))
					for range rng.Int64N(c.events/4) + 10 {
						asked++
						if ok, _ := passes(t, v, one(l, "k")); ok {
							log = append(log, int64(limiter.At(clock.Now())))
						}
						if ok, _ := passes(t, exact, one(&plain, "k")); ok {
							could++
						}
						clock.Advance(gap.Truncate(time.Microsecond))
						if rng.IntN(10) == 0 {
							nodes[rng.IntN(len(nodes))].giveBack(t.Context(), false)
						}
					}
					if rng.IntN(4) == 0 {
						clock.Advance(time.Duration(rng.Int64N(int64(time.Second))).Truncate(time.Microsecond))
					}
				}
				if most := int64(log.most(l.Window)); most*100 > c.most*c.events {
					t.Errorf("%d passed in a window of a limit of %d", most, c.events)
				}
				if len(log)*100 < could*85 {
					t.Errorf("%d passed, where an exact limiter lets %d pass", len(log), could)
				}
				if calls := int(store.takes.Load()); c.events >= 400 && calls > asked-len(log)/2 {
					t.Errorf("%d calls for %d requests, of which %d passed: nothing was reserved", calls, asked, len(log))
				}
			})
		}
	}
}

// The worst for a reserve: it is taken, and spent in the last moment; a window after it was taken
// the store has forgotten it, and everybody comes.
func TestReserveIsWorthTheSameLater(t *testing.T) {
	for _, algorithm := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.TokenBucket} {
		synctest.Test(t, func(t *testing.T) {
			const events, n = 64, 17
			l := reserveOf(algorithm, events, n, time.Second)
			l.Burst = 32
			l.Events = 32 // with the burst: 64 in a window
			if algorithm != limiter.TokenBucket {
				l.Events = events
			}
			store := memory()
			a, b := NewReserves(store, ReservesOptions{}), NewReserves(store, ReservesOptions{})
			var log tally
			spend := func(v *Reserves, times int) {
				for range times {
					if ok, _ := passes(t, v, one(l, "k")); ok {
						log = append(log, time.Now().UnixMicro())
					}
				}
			}
			_, hold := Reserved(l)
			for range 5 {
				spend(a, 12)
				time.Sleep(hold - time.Microsecond)
				spend(a, 20)
				time.Sleep(l.Window - hold + time.Microsecond)
				spend(b, 100)
				time.Sleep(hold)
				a.giveBack(t.Context(), false)
				b.giveBack(t.Context(), false)
			}
			if most := log.most(l.Window); most > events {
				t.Errorf("%s: %d passed in a window of a limit of %d", algorithm, most, events)
			}
		})
	}
}

// A bucket that fills while some of it lies reserved gives no more than its burst at once.
func TestReserveOfABucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.TokenBucket, 1600, 16, time.Second)
		l.Burst = 160
		v := NewReserves(memory(), ReservesOptions{})
		// What a bucket would have left that nothing is reserved of.
		level, last := float64(l.Burst), time.Now()
		spent := 0
		ask := func() {
			ok, _ := passes(t, v, one(l, "k"))
			now := time.Now()
			level = min(level+now.Sub(last).Seconds()*float64(l.Events), float64(l.Burst))
			if last = now; ok {
				level--
				spent++
			}
			if level < -1e-6 {
				t.Fatalf("request %d passed with %f tokens", spent, level)
			}
		}
		for i := range 40 {
			for range 20 + i {
				ask()
				time.Sleep(700 * time.Microsecond)
				v.giveBack(t.Context(), false)
			}
			time.Sleep(5 * time.Millisecond)
			for range 200 {
				ask()
			}
			time.Sleep(200 * time.Millisecond)
		}
		if spent < 40*145 {
			t.Errorf("%d passed, want nearly 150 of each burst", spent)
		}
	})
}

// What is reserved in a fixed window ends with it.
func TestReserveEndsWithItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.FixedWindow, 100, 16, time.Second)
		store := memory()
		v := NewReserves(store, ReservesOptions{})
		passes(t, v, one(l, "k"))
		time.Sleep(l.Window - 2*time.Millisecond)
		for range 20 {
			passes(t, v, one(l, "k"))
		}
		if n := leftOf(t, store, l, "k"); n == 79 {
			t.Fatal("nothing lies reserved")
		}
		time.Sleep(2 * time.Millisecond)
		passed := 0
		for range 120 {
			if ok, _ := passes(t, v, one(l, "k")); ok {
				passed++
			}
		}
		if passed != 100 {
			t.Errorf("%d passed in the next window, want 100", passed)
		}
	})
}

// Only a busy key is reserved of, no more than was asked for of late, and what is not spent
// is given back when its time is over.
func TestReserveOfABusyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.SlidingWindow, 72, 8, time.Minute)
		store := memory()
		v := NewReserves(store, ReservesOptions{})
		ctx, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { v.Run(ctx) })

		passes(t, v, one(l, "once"))
		for range 6 {
			passes(t, v, one(l, "slow"))
			time.Sleep(2 * time.Second)
		}
		if once, slow := leftOf(t, store, l, "once"), leftOf(t, store, l, "slow"); once != 71 || slow != 66 {
			t.Errorf("%d and %d left of 72 after 1 and 6 requests that were not busy", once, slow)
		}
		most := int64(0)
		for i := range int64(30) {
			_, results := passes(t, v, one(l, "k"))
			if r := results[0]; r.Remaining != 72-i-1 || r.Max != 72 {
				t.Errorf("request %d is told %d left of %d", i, r.Remaining, r.Max)
			}
			most = max(most, 72-i-1-leftOf(t, store, l, "k"))
		}
		if most < 4 || most > 7 {
			t.Errorf("at most %d lay reserved, want some, and at most 7", most)
		}
		if n := leftOf(t, v, l, "k"); n != 42 {
			t.Errorf("a look says %d are left, want 42", n)
		}
		time.Sleep(longestHold)
		synctest.Wait()
		if n := leftOf(t, store, l, "k"); n != 42 {
			t.Errorf("%d left when the time is over, want 42", n)
		}
		for range 20 {
			passes(t, v, one(l, "k"))
		}
		stop()
		work.Wait()
		if n := leftOf(t, store, l, "k"); n != 22 {
			t.Errorf("%d left at the end, want 22", n)
		}
		passes(t, v, one(l, "k"))
		passes(t, v, one(l, "k"))
		if n := leftOf(t, store, l, "k"); n != 20 {
			t.Errorf("%d left after two requests more, want 20: nothing is reserved any more", n)
		}
	})
}

// Near its end a limit is asked exactly: all of it is used, by whoever comes.
func TestReserveLeavesTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := reserveOf(limiter.SlidingWindow, 72, 16, time.Minute)
		store := memory()
		a, b := NewReserves(store, ReservesOptions{}), NewReserves(store, ReservesOptions{})
		passed := 0
		for i := range 120 {
			// One is much busier than the other.
			v := a
			if i%5 == 4 {
				v = b
			}
			ok, results := passes(t, v, one(l, "k"))
			if ok {
				passed++
			}
			if !ok && results[0].Wait <= 0 {
				t.Errorf("refused without a wait: %+v", results[0])
			}
		}
		if passed != 72 {
			t.Errorf("%d passed, want 72", passed)
		}
	})
}

// All or nothing, with several limits and costs: what one refuses takes nothing from the
// others, whether it was reserved or not.
func TestReservesOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := reserveOf(limiter.SlidingLog, 1000, 16, time.Minute)
		few := reserveOf(limiter.FixedWindow, 100, 16, time.Hour)
		exact := reserveOf(limiter.SlidingLog, 90, 0, time.Hour)
		exact.Zone = "exact"
		store := memory()
		v := NewReserves(store, ReservesOptions{})
		dear := func(l *limiter.Limit) limiter.Ask { return limiter.Ask{Limit: l, Key: "k", Cost: 3} }
		passed := 0
		for range 50 {
			if ok, _ := passes(t, v, dear(many), dear(few)); ok {
				passed++
			}
		}
		if passed != 33 {
			t.Errorf("%d passed at a cost of 3 of 100, want 33", passed)
		}
		// Single ones still pass by the wide limit, and one of the narrow one is left.
		v.giveBack(t.Context(), true)
		if m, f := leftOf(t, store, many, "k"), leftOf(t, store, few, "k"); m != 901 || f != 1 {
			t.Errorf("%d and %d left, want 901 and 1", m, f)
		}
		passed = 0
		for range 100 {
			if ok, _ := passes(t, v, one(many, "j"), one(exact, "j")); ok {
				passed++
			}
		}
		v.giveBack(t.Context(), true)
		if m := leftOf(t, store, many, "j"); passed != 90 || m != 910 {
			t.Errorf("beside a limit without reserve %d passed and %d are left, want 90 and 910", passed, m)
		}
	})
}

// What is never reserved of: a dry run, a look, a limit without quota or with a small burst.
func TestNothingToReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dry := reserveOf(limiter.SlidingWindow, 70, 8, time.Minute)
		dry.Shadow = true
		bucket := reserveOf(limiter.TokenBucket, 70, 8, time.Minute)
		bucket.Burst = LeastReserveBurst - 1
		apart := reserveOf(limiter.MinInterval, 1, 8, time.Microsecond)
		for _, l := range []*limiter.Limit{dry, bucket, apart} {
			store := &counted{Store: memory()}
			v := NewReserves(store, ReservesOptions{})
			for range 10 {
				passes(t, v, one(l, "k"))
				passes(t, v, limiter.Ask{Limit: l, Key: "k"})
			}
			if n := store.takes.Load(); n != 20 {
				t.Errorf("%s: %d calls for 20 requests", l.Algorithm, n)
			}
		}
	})
}
