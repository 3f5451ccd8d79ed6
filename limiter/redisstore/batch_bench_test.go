package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// BenchmarkBatchCost measures what a decision costs on the server, by its own count of
// microseconds, if so many requests of one limit share a script call: the median, and the least,
// of many rounds.
func BenchmarkBatchCost(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	store := open(b, s, Options{Secret: []byte("s")})
	for _, a := range algorithm.All {
		if a.Name() == limiter.MinInterval {
			continue
		}
		for _, size := range []int{1, 16, 64, 128} {
			b.Run(fmt.Sprintf("%s/%d", a.Name(), size), func(b *testing.B) {
				batchCost(b, s, store, a.Name(), size)
			})
		}
	}
}

func batchCost(b *testing.B, s *redistest.Server, store *Store, name string, size int) {
	const rounds, decisions = 31, 1600
	l := limitOf(name, 100_000)
	l.Window = time.Minute
	if name == limiter.SlidingWindow {
		l.Events = 1000
	}
	var requests [][]limiter.Ask
	for i := range size {
		requests = append(requests, []limiter.Ask{{Limit: l, Key: strconv.Itoa(i), Cost: 1, Lease: "lease"}})
	}
	empty := newScript("return 0")
	var usec, none, cpu []float64
	for b.Loop() {
		for range rounds {
			none = append(none, usecPerCall(b, store, empty, nil, nil, nil, 400))
			s.Do("CONFIG RESETSTAT")
			before := serverTime(b, s)
			for range decisions / size {
				if _, errs := together(b, store, requests); errs[0] != nil {
					b.Fatal(errs)
				}
			}
			cpu = append(cpu, (serverTime(b, s)-before)/float64(decisions/size*size))
			usec = append(usec, scriptTime(b, s)/float64(decisions/size*size))
			s.Do("FLUSHALL")
		}
	}
	slices.Sort(usec)
	slices.Sort(none)
	b.ReportMetric(usec[len(usec)/2], "µs/decision")
	b.ReportMetric(usec[0], "µs-least")
	b.ReportMetric(none[0], "µs-least-empty")
	b.ReportMetric(usec[len(usec)/2]/none[len(none)/2], "x-empty")
	slices.Sort(cpu)
	b.ReportMetric(cpu[len(cpu)/2], "cpu-µs")
	b.ReportMetric(0, "ns/op")
}
