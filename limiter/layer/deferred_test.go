package layer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// after returns a limit that is counted afterwards, every second.
func after(algorithm string, events int64, window time.Duration) *limiter.Limit {
	return &limiter.Limit{Zone: "after", Algorithm: algorithm, Events: events, Window: window, Deferred: time.Second}
}

// A far store counts what it is asked, and may lose calls or their answers.
type far struct {
	limiter.Store

	takes, adjusts atomic.Int64
	lose           func() (before, after bool)
}

func newFar() *far { return &far{Store: memory()} }

func (f *far) do(call func() error) error {
	var before, after bool
	if f.lose != nil {
		before, after = f.lose()
	}
	if before {
		return errDown
	}
	if err := call(); err != nil || !after {
		return err
	}
	return errDown
}

func (f *far) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	f.takes.Add(1)
	return f.do(func() error { return f.Store.Take(ctx, asks, results) })
}

func (f *far) Adjust(ctx context.Context, changes []limiter.Change) error {
	f.adjusts.Add(1)
	return f.do(func() error { return f.Store.Adjust(ctx, changes) })
}

// A place is one process that counts afterwards.
type place struct {
	limiter.Store
	d    *Deferred
	stop func()
}

func newPlace(t *testing.T, store limiter.Store, o DeferredOptions) *place {
	ctx, stop := context.WithCancel(t.Context())
	d := NewDeferred(NewCounts(memory(), 0), store, o)
	var work sync.WaitGroup
	work.Go(func() { d.Run(ctx) })
	return &place{d.Around(store), d, func() { stop(); work.Wait() }}
}

// serve asks for a request, and settles it if it passed.
func (p *place) serve(t *testing.T, asks ...limiter.Ask) bool {
	t.Helper()
	ok, results := passes(t, p, asks...)
	if ok {
		p.d.Settle(asks, results)
	}
	return ok
}

func TestDeferredContract(t *testing.T) {
	storetest.Exercise(t, func(_ testing.TB, now func() time.Time) limiter.Store {
		store := memstore.New(memstore.Options{MaxKeys: 10_000, Now: now})
		local := memstore.New(memstore.Options{Now: now})
		return renewed{NewDeferred(NewCounts(local, 0), store, DeferredOptions{}).Around(store), store}
	})
}

// The way of a request makes no call. What it counted is folded by key, sent once an interval, and
// known to the other process an interval later.
func TestDeferredFolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		l := after(limiter.SlidingWindow, 5000, time.Minute)
		a, b := newPlace(t, store, DeferredOptions{Receipts: true}), newPlace(t, store, DeferredOptions{Receipts: true})
		defer a.stop()
		defer b.stop()
		for range 1000 {
			a.serve(t, one(l, "k"))
			a.serve(t, one(l, "j"))
		}
		b.serve(t, one(l, "k"))
		if n := store.takes.Load() + store.adjusts.Load(); n != 0 {
			t.Errorf("%d calls on the way of requests", n)
		}
		time.Sleep(l.Deferred + time.Millisecond)
		synctest.Wait()
		if n, j := store.adjusts.Load(), leftOf(t, store.Store, l, "j"); n != 2 || j != 4000 {
			t.Errorf("2000 requests of two keys, and one elsewhere, were sent by %d calls, %d left of 5000", n, j)
		}
		b.serve(t, one(l, "k"))
		time.Sleep(l.Deferred)
		synctest.Wait()
		if n := leftOf(t, b, l, "k"); n != 3998 {
			t.Errorf("%d left at the other process, want 3998", n)
		}
	})
}

// Rows L46, L26: a thousand at once do not all pass because none of them has ended, and every
// one of those that passed is counted.
func TestDeferredCrowd(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{{5, 5}, {1000, 1000}} {
		store := newFar()
		l := after(limiter.SlidingLog, c.limit, time.Hour)
		d := NewDeferred(NewCounts(memory(), 0), store, DeferredOptions{Receipts: true})
		s := d.Around(store)
		var passed atomic.Int64
		var crowd, inside sync.WaitGroup
		inside.Add(1000)
		for range 1000 {
			crowd.Go(func() {
				asks, results := []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1)
				err := s.Take(context.Background(), asks, results)
				inside.Done()
				inside.Wait() // until all have been decided
				if err == nil && results[0].Allowed {
					passed.Add(1)
					d.Settle(asks, results)
				}
			})
		}
		crowd.Wait()
		if err := d.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if used := c.limit - leftOf(t, store.Store, l, "k"); passed.Load() != c.want || used != c.want {
			t.Errorf("%d of 1000 passed and %d are counted, want %d", passed.Load(), used, c.want)
		}
	}
}

// Rows L43, L46: what several processes let pass together stays within the bound that is
// documented.
func TestDeferredBound(t *testing.T) {
	for _, algorithm := range []string{limiter.SlidingWindow, limiter.SlidingLog} {
		synctest.Test(t, func(t *testing.T) {
			const nodes, offered = 3, 400 // a second, at each
			store := newFar()
			l := after(algorithm, 500, time.Second)
			l.Deferred = 100 * time.Millisecond
			const most = 500 // in a window, of one node
			var places [nodes]*place
			for i := range places {
				places[i] = newPlace(t, store, DeferredOptions{Receipts: true})
				defer places[i].stop()
			}
			var log tally
			for i := range nodes * offered * 8 {
				if places[i%nodes].serve(t, one(l, "k")) {
					log = append(log, time.Now().UnixMicro())
				}
				time.Sleep(time.Second / nodes / offered)
			}
			// Two intervals are a fifth of a second, in which a node is offered 80.
			if got, bound := log.most(l.Window), most+(nodes-1)*81; got > bound {
				t.Errorf("%s: %d passed in a second, the bound is %d", algorithm, got, bound)
			}
			if len(log) < 8*400 {
				t.Errorf("%s: only %d passed in 8 seconds at 500 a second", algorithm, len(log))
			}
			if first := log.most(l.Window); first <= most/2 {
				t.Errorf("%s: at most %d passed in a second", algorithm, first)
			}
		})
	}
}

// Row L49: whatever is lost on the way, calls or answers, each count arrives once.
func TestDeferredArrivesOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng, luck := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8))
			store := newFar()
			var mu sync.Mutex
			bad := true
			store.lose = func() (before, after bool) {
				mu.Lock()
				defer mu.Unlock()
				n := luck.IntN(4)
				return bad && n == 0, bad && n == 1
			}
			l := after(limiter.SlidingLog, 100_000, 10*time.Minute)
			fixed := after(limiter.FixedWindow, 100_000, time.Hour)
			places := []*place{newPlace(t, store, DeferredOptions{Receipts: true}), newPlace(t, store, DeferredOptions{Receipts: true})}
			counted := map[string]int64{}
			for range 150 {
				key := fmt.Sprint(rng.IntN(3))
				for range rng.IntN(5) {
					if !places[rng.IntN(2)].serve(t, one(l, key), one(fixed, key)) {
						t.Fatal("refused")
					}
					counted[key]++
				}
				time.Sleep(time.Duration(rng.IntN(1200)) * time.Millisecond)
			}
			mu.Lock()
			bad = false
			mu.Unlock()
			for _, p := range places {
				time.Sleep(3 * l.Deferred)
				p.stop()
			}
			for key, n := range counted {
				got, filled := 100_000-leftOf(t, store.Store, l, key), 100_000-leftOf(t, store.Store, fixed, key)
				if got != n || filled != n {
					t.Errorf("seed %d, key %s: %d and %d counted, want %d", seed, key, got, filled, n)
				}
			}
		})
	}
}

// Row L20: what has left its window while the store was away is not sent any more, and what has not is. Rows
// and receipts of keys that are idle go.
func TestDeferredOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		far := newFar()
		far.lose = func() (bool, bool) { return away.Load(), false }
		states := far.Store.(*memstore.Store)
		l := after(limiter.SlidingLog, 100, time.Minute)
		p := newPlace(t, far, DeferredOptions{Receipts: true})
		defer p.stop()
		p.serve(t, one(l, "before"))
		time.Sleep(2 * l.Deferred)
		away.Store(true)
		for range 10 {
			p.serve(t, one(l, "old"))
			p.serve(t, one(l, "k"))
		}
		time.Sleep(50 * time.Second)
		for range 7 {
			p.serve(t, one(l, "k"))
		}
		time.Sleep(20 * time.Second)
		if n := leftOf(t, p, l, "k"); n != 93 {
			t.Errorf("%d left during the outage, want 93: this process counts on", n)
		}
		away.Store(false)
		time.Sleep(2 * l.Deferred)
		synctest.Wait()
		if k, old := leftOf(t, far.Store, l, "k"), leftOf(t, far.Store, l, "old"); k != 93 || old != 100 {
			t.Errorf("after the outage %d and %d left, want 93 and 100", k, old)
		}
		if calls := far.takes.Load() + far.adjusts.Load(); calls > 100*mostSendFailures {
			t.Errorf("%d calls in an outage of 70 seconds", calls)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		rows := 0
		for i := range p.d.shards {
			rows += len(p.d.shards[i].rows)
		}
		states.Sweep(1 << 20)
		kept := 0
		for _, n := range states.Keys() {
			kept += n
		}
		if rows != 0 || kept != 0 {
			t.Errorf("%d rows are kept of idle keys, and %d states in the store", rows, kept)
		}
	})
}

// All or nothing, with limits of both kinds and dry runs: what one refuses takes nothing from the
// others, and only what passed is sent.
func TestDeferredBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		late, now := after(limiter.SlidingWindow, 50, time.Hour), after(limiter.SlidingLog, 30, time.Hour)
		now.Deferred, now.Zone = 0, "now"
		dry := after(limiter.SlidingLog, 10, time.Hour)
		dry.Zone, dry.Shadow = "dry", true
		p := newPlace(t, store, DeferredOptions{Receipts: true})
		defer p.stop()
		passed := 0
		for range 40 {
			if p.serve(t, one(late, "k"), one(now, "k"), one(dry, "k")) {
				passed++
			}
		}
		if n := leftOf(t, p, late, "k"); passed != 30 || n != 20 {
			t.Errorf("%d passed and %d are left, want 30 and 20", passed, n)
		}
		for range 40 {
			if p.serve(t, one(now, "j"), limiter.Ask{Limit: late, Key: "j", Cost: 20}) {
				passed++
			}
		}
		if n := leftOf(t, store.Store, now, "j"); passed != 32 || n != 28 {
			t.Errorf("%d more passed and %d are left, want 2 and 28", passed-30, n)
		}
		_, results := passes(t, p, one(now, "j"), limiter.Ask{Limit: late, Key: "j", Cost: 20}, one(now, "k"))
		if !results[0].Allowed || results[0].Remaining != 28 || results[1].Allowed || results[1].Origin != limiter.Cached ||
			results[1].Wait <= 0 || results[2].Allowed || results[2].Wait <= 0 {
			t.Errorf("what is refused says %+v", results)
		}
		time.Sleep(2 * aWhile)
		synctest.Wait()
		if a, b := leftOf(t, store.Store, late, "k"), leftOf(t, store.Store, dry, "k"); a != 20 || b != 0 {
			t.Errorf("the store has %d and %d left, want 20 and 0", a, b)
		}
		// A look costs nothing and knows what others counted, an interval later.
		if err := store.Store.Adjust(t.Context(), []limiter.Change{{Limit: late, Key: "seen", Delta: 7}}); err != nil {
			t.Fatal(err)
		}
		p.serve(t, limiter.Ask{Limit: late, Key: "seen"})
		time.Sleep(aWhile)
		synctest.Wait()
		if n := leftOf(t, p, late, "seen"); n != 43 {
			t.Errorf("%d left of what others counted 7 of 50 of", n)
		}
	})
}
