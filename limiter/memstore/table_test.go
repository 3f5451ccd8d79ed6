package memstore

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// take asks for a cost of one key.
func take(t *testing.T, s *Store, l *limiter.Limit, key string, cost int64) limiter.Result {
	t.Helper()
	results := make([]limiter.Result, 1)
	asks := []limiter.Ask{{Limit: l, Key: key, Cost: cost, Lease: key}}
	if err := s.Take(context.Background(), asks, results); err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func limit(name string) *limiter.Limit {
	return &limiter.Limit{Zone: "api", Algorithm: name, Events: 3, Window: 10 * time.Second}
}

// A lower bound drops nothing that counts.
func TestSetMaxKeys(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 100, Now: clock.Now})
	l := limit(limiter.FixedWindow)
	for i := range 50 {
		take(t, s, l, strconv.Itoa(i), 3)
	}
	s.SetMaxKeys(10)
	for i := range 50 {
		if r := take(t, s, l, strconv.Itoa(i), 1); r.Allowed {
			t.Errorf("key %d was forgotten: %+v", i, r)
		}
	}
	take(t, s, l, "new", 3)
	if r := take(t, s, l, "newer", 1); r.Allowed {
		t.Errorf("above the bound a new key had its own budget: %+v", r)
	}
	s.SetMaxKeys(100)
	if r := take(t, s, l, "newer", 1); !r.Allowed {
		t.Errorf("below the bound: %+v", r)
	}
}

// Sweep frees what has run out and nothing else, and gives memory back.
func TestSweep(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{Now: clock.Now})
	short, long := limit(limiter.SlidingLog), limit(limiter.SlidingWindow)
	long.Zone, long.Window = "long", time.Hour
	for i := range 5000 {
		take(t, s, short, strconv.Itoa(i), 1)
	}
	for i := range 1000 {
		take(t, s, long, strconv.Itoa(i), 3)
	}
	if n := s.Sweep(1 << 20); n != 0 {
		t.Errorf("%d keys were swept that count", n)
	}
	if keys := s.Keys(); keys["api"] != 5000 || keys["long"] != 1000 || s.Len() != 6000 {
		t.Errorf("held: %v, %d in all", keys, s.Len())
	}
	clock.Advance(short.Window)
	swept := 0
	for range 1000 {
		swept += s.Sweep(100)
	}
	if keys := s.Keys(); swept != 5000 || len(keys) != 1 || keys["long"] != 1000 {
		t.Errorf("%d swept, held: %v", swept, keys)
	}
	for i := range 1000 {
		if r := take(t, s, long, strconv.Itoa(i), 1); r.Allowed {
			t.Fatalf("key %d was forgotten: %+v", i, r)
		}
	}
	clock.Advance(long.Window)
	if n := s.Sweep(1 << 20); n != 1000 || s.Len() != 0 {
		t.Errorf("%d swept, %d held", n, s.Len())
	}
	for i := range s.shards {
		if s.shards[i].entries.first != nil {
			t.Fatalf("shard %d keeps its memory", i)
		}
	}
	take(t, s, long, "again", 1)
}

// New keys make the expired ones leave without any sweep, so that steady traffic of ever new
// keys holds no more than the live ones and a few.
func TestNewKeysSweep(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 1000, Now: clock.Now})
	l := limit(limiter.TokenBucket)
	for i := range 20_000 {
		clock.Advance(l.Window / 3 / 100) // a bucket that one was taken of is full again after 100 steps
		take(t, s, l, strconv.Itoa(i), 1)
	}
	if n := s.Len(); n > 250 {
		t.Errorf("%d keys are held of 100 that count", n)
	}
}

// The places of large states are used again.
func TestLargeStatesMakeRoom(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 1000, Now: clock.Now})
	l := limit(limiter.SlidingLog)
	for i := range 5000 {
		clock.Advance(l.Window / 100)
		take(t, s, l, strconv.Itoa(i), 3)
	}
	if n := s.shards[0].large.size; n > 250 {
		t.Errorf("room for %d large states, of which 100 count", n)
	}
}

// An entry that has run out is not swept away while a call is about to use it again.
func TestHeldEntries(t *testing.T) {
	for _, cost := range []int64{1, 3} { // states inside the entry and outside
		clock := storetest.NewClock()
		s := New(Options{MaxKeys: 1000, Now: clock.Now})
		old, fresh := limit(limiter.SlidingLog), limit(limiter.SlidingLog)
		fresh.Index = 1
		take(t, s, old, "k", cost)
		clock.Advance(old.Window)
		asks := []limiter.Ask{{Limit: old, Key: "k", Cost: 1}, {Limit: fresh, Key: "k", Cost: 2}}
		results := make([]limiter.Result, 2)
		if err := s.Take(context.Background(), asks, results); err != nil {
			t.Fatal(err)
		}
		if results[0].Remaining != 2 || results[1].Remaining != 1 {
			t.Errorf("%+v", results)
		}
		if r := take(t, s, old, "k", 0); r.Remaining != 2 {
			t.Errorf("the old limit: %+v", r)
		}
		if r := take(t, s, fresh, "k", 0); r.Remaining != 1 {
			t.Errorf("the fresh limit: %+v", r)
		}
	}
}

// Refused asks and looks leave no entries behind.
func TestNothingIsKeptForNothing(t *testing.T) {
	s := New(Options{})
	l, full := limit(limiter.SlidingWindow), limit(limiter.SlidingWindow)
	full.Zone = "full"
	take(t, s, full, "all", 3)
	for i := range 100 {
		key := strconv.Itoa(i)
		take(t, s, l, key, 0)
		take(t, s, l, key, 4)
		asks := []limiter.Ask{{Limit: l, Key: key, Cost: 1}, {Limit: full, Key: "all", Cost: 1}}
		if err := s.Take(context.Background(), asks, make([]limiter.Result, 2)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Len(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// A decision allocates nothing, whatever the algorithm and however many limits (up to 8).
func TestNoAllocations(t *testing.T) {
	for _, alg := range algorithm.All {
		for _, ceiling := range []time.Duration{0, 20 * time.Second} {
			clock := storetest.NewClock()
			s := New(Options{Now: clock.Now})
			asks, results := make([]limiter.Ask, fewAsks), make([]limiter.Result, fewAsks)
			for i := range asks {
				l := limit(alg.Name())
				l.Index, l.Ceiling = i, ceiling
				if alg.Name() == limiter.MinInterval {
					l.Events = 1
				}
				asks[i] = limiter.Ask{Limit: l, Key: "203.0.113.7", Cost: 1, Lease: "lease"}
			}
			step := func() {
				clock.Advance(700 * time.Millisecond)
				if err := s.Take(context.Background(), asks, results); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				step()
			}
			if n := testing.AllocsPerRun(200, step); n != 0 {
				t.Errorf("%s with a ceiling of %s: %v allocations", alg.Name(), ceiling, n)
			}
		}
	}
}

// Many goroutines, keys, sweeps and looks at once: exactly the limit of each key passes.
func TestParallel(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{Now: clock.Now})
	limits := []*limiter.Limit{limit(limiter.SlidingWindow), limit(limiter.SlidingLog)}
	var passed [50][2]int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			asks, results := make([]limiter.Ask, 2), make([]limiter.Result, 2)
			for i := range 50 * 4 {
				// Two keys in one step lock two shards, in any order of the asks.
				for j, l := range limits {
					asks[j] = limiter.Ask{Limit: l, Key: strconv.Itoa((i + j*i) % 50), Cost: 1}
				}
				if i%8 == 0 {
					s.Sweep(10)
					s.Keys()
				}
				for j := range asks {
					if err := s.Take(context.Background(), asks[j:j+1], results[j:j+1]); err != nil {
						t.Error(err)
					}
					if results[j].Allowed {
						mu.Lock()
						passed[(i+j*i)%50][j]++
						mu.Unlock()
					}
				}
				d, err := limiter.Take(context.Background(), s, asks, results)
				if err != nil {
					t.Error(err)
				}
				for j := range asks {
					if d.Allowed {
						mu.Lock()
						passed[(i+j*i)%50][j]++
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	for key, n := range passed {
		if n[0] != 3 || n[1] > 3 || key%2 == 0 && n[1] != 3 {
			t.Errorf("key %d: %v passed, want 3", key, n)
		}
	}
}
