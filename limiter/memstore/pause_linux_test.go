package memstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/weirhq/caddy-weir/limiter"
)

// BenchmarkPause measures the slowest decisions at a million keys: while they come in, and
// when all are known, with sweeps and collections of garbage around. It goes by the time
// that a thread ran, so that one which had to wait for a processor does not count as slow. What
// a decision may wait for, the lock, is held longest by a sweep, which is measured as well:
// all holds together that look at one whole shard.
func BenchmarkPause(b *testing.B) {
	keys := keysOf(1_000_000)
	l := limitsOf(limiter.SlidingWindow, 1)[0]
	b.Run("inserting", func(b *testing.B) {
		for b.Loop() {
			reportSlowest(b, New(Options{}), l, keys)
		}
	})
	b.Run("steady", func(b *testing.B) {
		s := New(Options{})
		fill(b, s, l, keys, 1)
		stop := make(chan struct{})
		var sweeps time.Duration
		var work sync.WaitGroup
		work.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for tick := time.Tick(time.Millisecond); ; {
				select {
				case <-stop:
					return
				case <-tick:
					start := ran()
					s.Sweep(1)
					sweeps = max(sweeps, ran()-start)
				}
			}
		})
		work.Go(func() {
			for tick := time.Tick(100 * time.Millisecond); ; {
				select {
				case <-stop:
					return
				case <-tick:
					runtime.GC()
				}
			}
		})
		for b.Loop() {
			reportSlowest(b, s, l, keys)
		}
		close(stop)
		work.Wait()
		b.ReportMetric(float64(sweeps.Nanoseconds())/1e3, "sweep-worst-µs")
	})
}

// reportSlowest asks once under each key and reports the slowest answers.
func reportSlowest(b *testing.B, s *Store, l *limiter.Limit, keys []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([]time.Duration, len(keys))
	asks, results := make([]limiter.Ask, 1), make([]limiter.Result, 1)
	for i, key := range keys {
		asks[0] = limiter.Ask{Limit: l, Key: key, Cost: 1}
		start := ran()
		if err := s.Take(context.Background(), asks, results); err != nil {
			b.Fatal(err)
		}
		took[i] = ran() - start
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)-1].Nanoseconds())/1e3, "worst-µs")
	b.ReportMetric(float64(took[len(took)-len(took)/10_000].Nanoseconds())/1e3, "p99.99-µs")
	b.ReportMetric(0, "ns/op")
}

// ran returns how long the thread has run.
func ran() time.Duration {
	const threadTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadTime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return time.Duration(ts.Nano())
}
