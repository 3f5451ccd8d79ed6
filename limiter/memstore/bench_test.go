package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// limitsOf returns n limits of a zone, wide enough that most asks pass.
func limitsOf(name string, n int) []*limiter.Limit {
	limits := make([]*limiter.Limit, n)
	for i := range limits {
		l := &limiter.Limit{Zone: "api", Algorithm: name, Index: i, Events: 1000 * int64(i+1), Window: time.Minute}
		if name == limiter.MinInterval {
			l.Events, l.Window = 1, time.Microsecond
		}
		limits[i] = l
	}
	return limits
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "203.0.113." + strconv.Itoa(i)
	}
	return keys
}

// benchTake measures one decision, all limits of a key together.
func benchTake(b *testing.B, s *Store, limits []*limiter.Limit, keys []string) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		asks := make([]limiter.Ask, len(limits))
		results := make([]limiter.Result, len(limits))
		// One after the other, as a request's key is fresh in the cache; in the table
		// neighbours lie far apart.
		for next := rand.IntN(len(keys)); pb.Next(); next++ {
			key := keys[next%len(keys)]
			for i, l := range limits {
				asks[i] = limiter.Ask{Limit: l, Key: key, Cost: 1, Lease: key}
			}
			if err := s.Take(context.Background(), asks, results); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	for _, alg := range algorithm.All {
		for _, n := range []int{1, 3} {
			limits := limitsOf(alg.Name(), n)
			for _, spread := range []struct {
				name string
				keys int
			}{{"hot", 1}, {"spread", 1000}} {
				b.Run(fmt.Sprintf("%s/%dlimits/%s", alg.Name(), n, spread.name), func(b *testing.B) {
					benchTake(b, New(Options{}), limits, keysOf(spread.keys))
				})
			}
		}
	}
}

// A million keys, all of them known.
func BenchmarkMillion(b *testing.B) {
	for _, name := range []string{limiter.SlidingWindow, limiter.TokenBucket} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{MaxKeys: 2_000_000})
			limits, keys := limitsOf(name, 1), keysOf(1_000_000)
			fill(b, s, limits[0], keys, 1)
			b.ResetTimer()
			benchTake(b, s, limits, keys)
		})
	}
}

// fill spends a cost of each key.
func fill(tb testing.TB, s *Store, l *limiter.Limit, keys []string, cost int64) {
	tb.Helper()
	asks, results := make([]limiter.Ask, 1), make([]limiter.Result, 1)
	for _, key := range keys {
		asks[0] = limiter.Ask{Limit: l, Key: key, Cost: cost, Lease: key}
		if err := s.Take(context.Background(), asks, results); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkFlood lets ten million keys come that nobody has seen, as from someone who invents
// them, into a store of a million, while one request in ten thousand comes from a client that
// is at its limit. It reports how large the heap was at most, how many keys were held, how many of the
// requests passed, and how many of that client's.
func BenchmarkFlood(b *testing.B) {
	const flood, most = 10_000_000, 1_000_000
	l := &limiter.Limit{Zone: "api", Algorithm: limiter.SlidingWindow, Events: 100, Window: time.Hour}
	for b.Loop() {
		before := heap()
		s := New(Options{MaxKeys: most})
		fill(b, s, l, []string{"victim"}, 100)
		asks, results := make([]limiter.Ask, 1), make([]limiter.Result, 1)
		var passed, freed, largest, held int
		var room [20]byte
		for i := range flood {
			key := string(strconv.AppendInt(room[:0], int64(i), 10))
			if i%10_000 == 0 {
				key = "victim"
			}
			asks[0] = limiter.Ask{Limit: l, Key: key, Cost: 1}
			if err := s.Take(context.Background(), asks, results); err != nil {
				b.Fatal(err)
			}
			switch {
			case key == "victim" && results[0].Allowed:
				freed++
			case results[0].Allowed:
				passed++
			}
			if i%1_000_000 == 999_999 {
				s.Sweep(most)
				held = max(held, s.Len())
				largest = max(largest, int(heap()-before))
			}
		}
		b.ReportMetric(float64(largest)/1e6, "MB")
		b.ReportMetric(float64(held), "keys")
		b.ReportMetric(float64(passed), "passed")
		b.ReportMetric(float64(freed), "victim-freed")
		b.ReportMetric(0, "ns/op")
	}
}

// Heap per key of a million keys, fresh ones and full ones of the default algorithm, which
// have as many marks as there can be.
func BenchmarkHeap(b *testing.B) {
	keys := keysOf(1_000_000)
	l := &limiter.Limit{Zone: "api", Algorithm: limiter.SlidingWindow, Events: 1008, Window: time.Hour}
	for _, bench := range []struct {
		name string
		cost int64
	}{{"fresh", 1}, {"full", 1008}} {
		b.Run(bench.name, func(b *testing.B) {
			for range b.N {
				before := heap()
				s := New(Options{MaxKeys: 2_000_000})
				fill(b, s, l, keys, bench.cost)
				b.ReportMetric(float64(heap()-before)/float64(len(keys)), "B/key")
				runtime.KeepAlive(s)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
