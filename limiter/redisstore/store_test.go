package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

var background = context.Background()

func TestStore(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		return alone(s)(t, now)
	})
}

// limitOf returns a limit of each algorithm that allows that much in an hour.
func limitOf(name string, events int64) *limiter.Limit {
	l := &limiter.Limit{Zone: "api", Algorithm: name, Events: events, Window: time.Hour}
	if name == limiter.MinInterval {
		l.Events = 1
	}
	return l
}

// take asks a store once, and returns the one result.
func take(t testing.TB, s limiter.Store, l *limiter.Limit, key string, cost int64) limiter.Result {
	t.Helper()
	r, err := tryTake(s, l, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryTake(s limiter.Store, l *limiter.Limit, key string, cost int64) (limiter.Result, error) {
	var r [1]limiter.Result
	err := s.Take(background, []limiter.Ask{{Limit: l, Key: key, Cost: cost, Lease: "lease"}}, r[:])
	return r[0], err
}

// L25: whoever asks at once, from whichever node, no more pass than the limit says.
func TestTwoStoresShareOneBudget(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	stores := [2]*Store{open(t, s, Options{}), open(t, s, Options{})}
	for i, c := range []struct {
		algorithm string
		events    int64
	}{
		{limiter.SlidingWindow, 64},
		{limiter.SlidingWindow, 1000},
		{limiter.SlidingLog, 200},
		{limiter.FixedWindow, 200},
		{limiter.SlidingCounter, 200},
		{limiter.TokenBucket, 100},
		{limiter.MinInterval, 1},
	} {
		l := limitOf(c.algorithm, c.events)
		l.Index = i
		t.Run(fmt.Sprint(c.algorithm, c.events), func(t *testing.T) {
			var passed atomic.Int64
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() {
					for range c.events/64*2 + 2 {
						r, err := tryTake(stores[i%2], l, "k", 1)
						if err != nil {
							t.Error(err)
						}
						if r.Allowed {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if n := passed.Load(); n != c.events {
				t.Errorf("%d passed of a limit of %d", n, c.events)
			}
		})
	}
}

// L11, L19, L22: no key stays for ever, whatever was done to it.
func TestEveryKeyExpires(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{})
	for _, a := range algorithm.All {
		l := limitOf(a.Name(), 3)
		// A tenth of a microsecond of refill: no TTL may come out as 0 (L10).
		l.Window = 7 * time.Microsecond
		take(t, store, l, "short", 1)

		l = limitOf(a.Name(), 3)
		for _, cost := range []int64{1, 1, 5, 0, 1, 1} {
			take(t, store, l, "k", cost)
		}
		if err := store.Adjust(background, []limiter.Change{{Limit: l, Key: "k", Delta: -1}}); err != nil {
			t.Fatal(err)
		}
		take(t, store, l, "k", 1)
		l.Ceiling = 2 * l.Window
		take(t, store, l, "k", 3)
		if err := store.Release(background, []limiter.Ask{{Limit: l, Key: "k", Lease: "other"}}); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := only(store).Keys(background, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) < len(algorithm.All) {
		t.Errorf("only %d keys are kept: %q", len(keys), keys)
	}
	for _, key := range keys {
		ttl := only(store).PTTL(background, key).Val()
		if key != "weir:secret" && (ttl <= 0 || ttl > 2*time.Hour+time.Minute+time.Second) {
			t.Errorf("%s: lives for %s", key, ttl)
		}
	}
}

// Reset and Release, and a give-back that leaves nothing, leave no key behind.
func TestNothingIsLeft(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s")})
	for _, a := range algorithm.All {
		l := limitOf(a.Name(), 3)
		take(t, store, l, "k", 1)
		if got := s.Do("DBSIZE"); got != ":1" {
			t.Errorf("%s: DBSIZE: got %s after one ask", a.Name(), got)
		}
		var err error
		switch a.Name() {
		case limiter.InFlight:
			err = store.Release(background, []limiter.Ask{{Limit: l, Key: "k", Lease: "lease"}})
		case limiter.FixedWindow:
			err = store.Reset(background, l, "k")
		default:
			err = store.Adjust(background, []limiter.Change{{Limit: l, Key: "k", Delta: -1}})
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Do("DBSIZE"); got != ":0" {
			t.Errorf("%s: DBSIZE: got %s, want :0", a.Name(), got)
			s.Do("FLUSHALL")
		}
	}
}

// How many bytes a full state takes, beyond what a key takes that holds nothing.
func TestStateSizes(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := bared{open(t, s, Options{})}
	usage := func(key string) int64 {
		n, err := only(store.Store).MemoryUsage(background, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		algorithm string
		events    int64
		most      int64
	}{
		{limiter.TokenBucket, 1000, 16},
		{limiter.MinInterval, 1, 16},
		{limiter.FixedWindow, 1000, 16},
		{limiter.SlidingCounter, 1000, 48},
		{limiter.SlidingWindow, 10, 460},
		{limiter.SlidingWindow, 72, 500},
		{limiter.SlidingWindow, 1000, 500},
		{limiter.SlidingWindow, limiter.MaxEvents, 500},
	} {
		l := limitOf(c.algorithm, c.events)
		step := max(l.Events/250, 1)
		for range 260 {
			take(t, store, l, "k", step)
		}
		kind, err := kindOf(c.algorithm)
		if err != nil {
			t.Fatal(err)
		}
		key := store.names.build(store.hasher.Load(), kind, l, "k")
		full := usage(key)
		if err := only(store.Store).Set(background, key, "", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		if n := full - usage(key); n > c.most {
			t.Errorf("%s of %d: takes %d bytes, want at most %d", c.algorithm, c.events, n, c.most)
		}
		store.Reset(background, l, "k")
	}
}

// L101: stores of other secrets, databases or prefixes count apart.
func TestStoresApart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	l := limitOf(limiter.FixedWindow, 1)
	for i, o := range []Options{
		{},
		{Secret: []byte("one")},
		{Secret: []byte("two")},
		{Secret: []byte("two"), DB: 3},
		{Secret: []byte("two"), Prefix: "two:"},
		{Secret: []byte("two"), Addresses: []string{"redis://" + s.Addr() + "/4"}},
		{ClearKeys: true},
	} {
		if r := take(t, open(t, s, o), l, "k", 1); !r.Allowed {
			t.Errorf("store %d shares a budget with one before it", i)
		}
		if r := take(t, open(t, s, o), l, "k", 1); r.Allowed {
			t.Errorf("store %d does not share its budget with its like", i)
		}
	}
}

// What a person or another program put in our place means nothing, whatever it is: the key counts
// as fresh, also for those who share a trip, and what others were charged is charged once.
func TestForeignKey(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{ClearKeys: true})
	l := limitOf(limiter.FixedWindow, 3)
	second := limitOf(limiter.SlidingLog, 3)
	for _, foreign := range []string{"LPUSH weir:api:f0:{k} x", "SADD weir:api:f0:{k} x", "SET weir:api:f0:{k} rubbish"} {
		s.Do("FLUSHALL")
		s.Do(foreign)
		for left := int64(2); left >= 0; left-- {
			if r := take(t, store, l, "k", 1); !r.Allowed || r.Remaining != left {
				t.Errorf("%s: got %+v, want %d left", foreign, r, left)
			}
		}
	}
	s.Do("FLUSHALL")
	s.Do("LPUSH weir:api:f0:{k} x")
	s.Do("LPUSH weir:api:l0:{k} x")
	results := make([]limiter.Result, 2)
	if err := store.Take(background, []limiter.Ask{{Limit: second, Key: "k", Cost: 1}, {Limit: l, Key: "k", Cost: 1}}, results); err != nil {
		t.Fatal(err)
	}
	if results[0].Remaining != 2 || results[1].Remaining != 2 {
		t.Errorf("got %+v", results)
	}
}

func TestOracle(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	storetest.Oracle(t, func(t testing.TB, now func() time.Time) limiter.Store {
		return alone(s)(t, now)
	}, 2)
}
