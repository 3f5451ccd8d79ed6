package layer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// node returns a store of its own on a server.
func node(t testing.TB, s *redistest.Server) *redisstore.Store {
	t.Helper()
	return patient(t, s, 10*time.Second)
}

// patient returns a store that waits for so long.
func patient(t testing.TB, s *redistest.Server, timeout time.Duration) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(redisstore.Options{
		Addresses: []string{s.Addr()}, Secret: []byte("shared"), Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// A stay is when a call that passed began and ended, in a clock that does not step: what it stands for
// happened in between.
type stay struct{ from, to time.Duration }

// within returns the most stays that lie in any window as a whole.
func within(stays []stay, window time.Duration) (most int) {
	for _, first := range stays {
		n := 0
		for _, s := range stays {
			if s.from >= first.from && s.to < first.from+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Two nodes with many clients at once, on a real server: in no window passes more than the limit, of
// each way of counting with that promise, and nearly as much does.
func TestReservesOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	for _, algorithm := range []string{limiter.SlidingWindow, limiter.SlidingLog} {
		t.Run(algorithm, func(t *testing.T) {
			l := &limiter.Limit{Zone: "hot", Algorithm: algorithm, Events: 200, Window: 400 * time.Millisecond, Reserve: 16}
			ctx, stop := context.WithCancel(t.Context())
			var work, clients sync.WaitGroup
			var mu sync.Mutex
			var stays []stay
			paid := 0
			start := time.Now()
			for range 2 {
				v := layer.NewReserves(node(t, server), layer.ReservesOptions{})
				work.Go(func() { v.Run(ctx) })
				for range 8 {
					clients.Go(func() {
						asks := []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}
						results := make([]limiter.Result, 1)
						for time.Since(start) < 6*l.Window {
							from := time.Since(start)
							if err := v.Take(ctx, asks, results); err != nil {
								t.Error(err)
								return
							}
							to := time.Since(start)
							if results[0].Allowed {
								mu.Lock()
								stays = append(stays, stay{from, to})
								if results[0].Origin == limiter.Cached {
									paid++
								}
								mu.Unlock()
							}
						}
					})
				}
			}
			clients.Wait()
			stop()
			work.Wait()
			if most := within(stays, l.Window); most > int(l.Events) {
				t.Errorf("%d passed in a window, the limit is %d", most, l.Events)
			}
			if len(stays) < 3*int(l.Events) || paid == 0 {
				t.Errorf("%d passed in 6 windows, %d of them from reserves", len(stays), paid)
			}
		})
	}
}

// Row L49, on a real server that stands still for a while, so that it does late what nobody
// waits for any more: every count of two nodes arrives once.
func TestDeferredOnRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	l := &limiter.Limit{Zone: "after", Algorithm: limiter.SlidingLog, Events: 20_000, Window: time.Hour, Deferred: 10 * time.Millisecond}
	var nodes [2]*layer.Deferred
	for i := range nodes {
		counts := layer.NewCounts(memstore.New(memstore.Options{}), 0)
		nodes[i] = layer.NewDeferred(counts, patient(t, server, 500*time.Millisecond), layer.DeferredOptions{Receipts: true})
	}
	total := int64(0)
	count := func(times int) {
		var work sync.WaitGroup
		for _, d := range nodes {
			total += int64(4 * times)
			for range 4 {
				work.Go(func() {
					asks := []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}
					for range times {
						d.Count(asks)
					}
				})
			}
		}
		work.Wait()
	}
	arrive := func() {
		t.Helper()
		for _, d := range nodes {
			err := d.Flush(t.Context())
			for tries := 0; err != nil && tries < 30; tries++ {
				err = d.Flush(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		asks, results := []limiter.Ask{{Limit: l, Key: "k"}}, make([]limiter.Result, 1)
		if err := node(t, server).Take(t.Context(), asks, results); err != nil {
			t.Fatal(err)
		}
		if used := results[0].Max - results[0].Remaining; used != total {
			t.Errorf("%d counts arrived of %d", used, total)
		}
	}
	count(100)
	arrive()
	for range 2 {
		server.Pause()
		count(100)
		for _, d := range nodes {
			if d.Flush(t.Context()) == nil {
				t.Error("a server that stands still answered")
			}
		}
		count(100)
		server.Resume()
		arrive()
	}
	// All receipts but the last of each node are gone, and those with the next sending.
	if n := len(server.List("KEYS *")); n > 2+len(nodes) {
		t.Errorf("%d keys on the server: %q", n, server.List("KEYS *"))
	}
}

// BenchmarkLease measures decisions about one busy key by 64 clients at a time: with the store alone,
// and with reserves of 4 and of 16.
func BenchmarkLease(b *testing.B) {
	server := redistest.Start(b, redistest.Options{})
	for _, c := range []struct {
		name string
		n    int64
	}{{"plain", 0}, {"lease4", 4}, {"lease16", 16}} {
		b.Run(c.name, func(b *testing.B) {
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			v := layer.NewReserves(node(b, server), layer.ReservesOptions{})
			go v.Run(ctx)
			l := &limiter.Limit{Zone: "bench", Algorithm: limiter.SlidingWindow, Events: 1_000_000_000, Window: time.Minute, Reserve: c.n}
			var clients sync.WaitGroup
			share := b.N/64 + 1
			b.ReportAllocs()
			b.ResetTimer()
			for range 64 {
				clients.Go(func() {
					asks := []limiter.Ask{{Limit: l, Key: "k", Cost: 1}}
					results := make([]limiter.Result, 1)
					for range share {
						if err := v.Take(ctx, asks, results); err != nil || !results[0].Allowed {
							b.Errorf("%+v, %v", results[0], err)
							return
						}
					}
				})
			}
			clients.Wait()
		})
	}
}
