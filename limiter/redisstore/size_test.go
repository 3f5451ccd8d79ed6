package redisstore

import (
	"fmt"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// stateSize returns what a nearly full state of a limit takes on the server, beyond what an
// empty string under the same name takes.
func stateSize(b *testing.B, store *Store, a limiter.Ask) int64 {
	b.Helper()
	if err := store.Reset(background, a.Limit, a.Key); err != nil {
		b.Fatal(err)
	}
	// As many steps as make marks, or events, or leases of their own.
	steps := min(a.Limit.Events, 200)
	a.Cost = a.Limit.Events / steps
	for i := range steps {
		a.Lease = fmt.Sprint("lease", i)
		if err := store.Take(background, []limiter.Ask{a}, make([]limiter.Result, 1)); err != nil {
			b.Fatal(err)
		}
	}
	kind, err := kindOf(a.Limit.Algorithm)
	if err != nil {
		b.Fatal(err)
	}
	name := store.names.build(store.hasher.Load(), kind, a.Limit, a.Key)
	full, err := only(store).MemoryUsage(background, name, 0).Result()
	if err != nil {
		b.Fatal(err)
	}
	if err := only(store).Set(background, name, "", 0).Err(); err != nil {
		b.Fatal(err)
	}
	empty, err := only(store).MemoryUsage(background, name, 0).Result()
	if err != nil {
		b.Fatal(err)
	}
	return full - empty
}

// BenchmarkStateSize reports what nearly full states take, by algorithm and limit.
func BenchmarkStateSize(b *testing.B) {
	store := open(b, redistest.Start(b, redistest.Options{}), Options{})
	for _, alg := range algorithm.All {
		for _, events := range []int64{10, 100, 1000, 10_000} {
			if alg.Name() == limiter.InFlight && events > 100 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", alg.Name(), events), func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(float64(stateSize(b, store, asksOf(alg.Name(), 1, events)[0])), "B/key")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
