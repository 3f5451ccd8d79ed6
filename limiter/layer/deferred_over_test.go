package layer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// aWhile is a little more than the interval of after.
const aWhile = time.Second + time.Millisecond

// A client that was refused is free again when others have stopped, and not an interval after a
// window later; one whose refusals count stays refused, on the node that refuses it.
func TestDeferredRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		l := after(limiter.SlidingLog, 10, 10*time.Second)
		strict := after(limiter.SlidingLog, 10, 10*time.Second)
		strict.Zone, strict.Ceiling = "strict", time.Hour
		a, b := newPlace(t, store, DeferredOptions{Receipts: true}), newPlace(t, store, DeferredOptions{Receipts: true})
		defer a.stop()
		defer b.stop()
		for range 10 {
			a.serve(t, one(l, "k"))
		}
		start := time.Now()
		b.serve(t, one(l, "k"))
		for !b.serve(t, one(l, "k")) || time.Since(start) < 2*time.Second {
			time.Sleep(100 * time.Millisecond)
		}
		// Counted when they arrived, up to an interval after they came, and read another later.
		if free := time.Since(start); free < l.Window-time.Second || free > l.Window+2*aWhile {
			t.Errorf("free again after %s", free)
		}
		for range 10 {
			a.serve(t, one(strict, "k"))
		}
		for range 60 {
			if a.serve(t, one(strict, "k")) {
				t.Fatal("a client that keeps hammering passed")
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// Counts for somebody who acts when a key is over its limit.
func TestDeferredOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		var mu sync.Mutex
		told := map[string]int{}
		over := func(a limiter.Ask, r limiter.Result) {
			mu.Lock()
			defer mu.Unlock()
			if r.Remaining != 0 || r.Wait <= 0 {
				t.Errorf("over with %+v", r)
			}
			told[a.Key]++
		}
		want := func(what, key string, n int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if told[key] != n {
				t.Errorf("%s: told %d times, want %d", what, told[key], n)
			}
		}
		l := after(limiter.SlidingLog, 5, time.Minute)
		a := newPlace(t, store, DeferredOptions{Receipts: true, Over: over})
		b := newPlace(t, store, DeferredOptions{Receipts: true, Over: over})
		defer a.stop()
		defer b.stop()
		count := func(p *place, key string, times int) {
			for range times {
				p.d.Count([]limiter.Ask{one(l, key)})
			}
		}
		count(a, "alone", 4)
		want("4 of 5", "alone", 0)
		count(a, "alone", 1)
		want("5 of 5, at once", "alone", 1)
		count(a, "alone", 10)
		time.Sleep(5 * time.Second)
		want("and more", "alone", 1)

		count(a, "both", 3)
		count(b, "both", 3)
		time.Sleep(aWhile)
		want("3 at each of two, after an interval", "both", 1)
		count(b, "both", 1)
		count(a, "both", 1)
		time.Sleep(aWhile)
		want("both know", "both", 2)

		if err := a.d.Reset(t.Context(), l, "alone"); err != nil {
			t.Fatal(err)
		}
		count(a, "alone", 4)
		want("4 of 5 after a reset", "alone", 1)
		count(a, "alone", 1)
		want("5 of 5 after a reset", "alone", 2)
		time.Sleep(time.Minute + 2*aWhile) // it was counted there a little later
		count(a, "alone", 5)
		want("5 of 5 a window later", "alone", 3)

		// A limit that grew is another one.
		wide := *l
		wide.Events = 8
		a.d.Count([]limiter.Ask{one(&wide, "alone")})
		want("6 of 8", "alone", 3)
		a.d.Count([]limiter.Ask{{Limit: &wide, Key: "alone", Cost: 2}})
		want("8 of 8", "alone", 4)
		a.d.Count([]limiter.Ask{{Limit: &wide, Key: "dear", Cost: 9}, {Limit: &wide, Key: "free"}})
		want("9 of 8", "dear", 1)
	})
}

// A reset forgets here and there, even what is on its way, and a correction goes along.
func TestDeferredResetAndAdjust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		l := after(limiter.SlidingLog, 10, time.Hour)
		p := newPlace(t, store, DeferredOptions{Receipts: true})
		defer p.stop()
		for range 10 {
			p.serve(t, one(l, "k"))
		}
		time.Sleep(2 * aWhile)
		if p.serve(t, one(l, "k")) {
			t.Error("passed")
		}
		if err := p.Reset(t.Context(), l, "k"); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			p.serve(t, one(l, "k"))
		}
		other := *l
		other.Deferred, other.Zone = 0, "other"
		if err := p.Adjust(t.Context(), []limiter.Change{{Limit: l, Key: "k", Delta: -2}, {Limit: &other, Key: "k", Delta: 3}}); err != nil {
			t.Fatal(err)
		}
		if n := leftOf(t, p, l, "k"); n != 6 {
			t.Errorf("%d left here, want 6", n)
		}
		time.Sleep(2 * aWhile)
		synctest.Wait()
		if a, b := leftOf(t, store.Store, l, "k"), leftOf(t, store.Store, &other, "k"); a != 6 || b != 7 {
			t.Errorf("the store has %d and %d left, want 6 and 7", a, b)
		}
		if err := p.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

// A reload goes on with the same counts: what the old configuration's requests took when it
// ended is sent by the new one.
func TestDeferredReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFar()
		l := after(limiter.SlidingLog, 10, time.Hour)
		counts := NewCounts(memory(), 0)
		run := func() (*Deferred, func()) {
			d := NewDeferred(counts, store, DeferredOptions{Receipts: true})
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() { d.Run(ctx) })
			return d, func() { stop(); work.Wait() }
		}
		first, stopFirst := run()
		asks := []limiter.Ask{one(l, "k")}
		_, results := passes(t, first.Around(store), asks...)
		_, more := passes(t, first.Around(store), asks...)
		first.Settle(asks, results)
		second, stopSecond := run()
		stopFirst()
		if n := leftOf(t, store.Store, l, "k"); n != 9 {
			t.Errorf("%d left when the old one has stopped, want 9", n)
		}
		first.Settle(asks, more)
		if n := leftOf(t, second.Around(store), l, "k"); n != 8 {
			t.Errorf("the new one says %d are left, want 8", n)
		}
		stopSecond()
		if n := leftOf(t, store.Store, l, "k"); n != 8 {
			t.Errorf("%d left at the end, want 8", n)
		}
	})
}

// A flood of keys is sent early, and what finds no room is counted here alone.
func TestDeferredIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		store := newFar()
		store.lose = func() (bool, bool) { return away.Load(), false }
		l := after(limiter.SlidingWindow, 10, time.Hour)
		l.Deferred = time.Minute
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		d := NewDeferred(NewCounts(memory(), 640), store, DeferredOptions{Receipts: true})
		go d.Run(ctx)
		p := &place{d.Around(store), d, stop}
		for i := range 600 {
			p.serve(t, one(l, fmt.Sprint(i)))
			time.Sleep(time.Millisecond)
		}
		sent := 0
		for i := range 600 {
			sent += 10 - int(leftOf(t, store.Store, l, fmt.Sprint(i)))
		}
		if sent < 400 {
			t.Errorf("%d of 600 were sent within a second, want most", sent)
		}
		away.Store(true)
		before := store.adjusts.Load()
		for i := range 5000 {
			p.serve(t, one(l, fmt.Sprint("flood", i)))
			time.Sleep(time.Millisecond)
		}
		rows := 0
		for i := range d.shards {
			rows += len(d.shards[i].rows)
		}
		if calls := store.adjusts.Load() - before; rows > 640 || calls > 100 {
			t.Errorf("%d rows, and %d calls of a store that is away", rows, calls)
		}
		if n := leftOf(t, p, l, "flood4999"); n != 9 {
			t.Errorf("a key that found no room has %d left here, want 9", n)
		}
	})
}

func TestDeferredAllocatesNothing(t *testing.T) {
	l := after(limiter.SlidingWindow, 1_000_000, time.Hour)
	d := NewDeferred(NewCounts(memory(), 0), AllowAll{}, DeferredOptions{Receipts: true})
	s := d.Around(AllowAll{})
	asks, results := []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Take(context.Background(), asks, results); err != nil {
			t.Fatal(err)
		}
		d.Settle(asks, results)
	}); n > 0 {
		t.Errorf("%v allocations to decide and count", n)
	}
	if n := testing.AllocsPerRun(100, func() { d.Count(asks) }); n > 0 {
		t.Errorf("%v allocations to count", n)
	}
}

func BenchmarkDeferred(b *testing.B) {
	l := after(limiter.SlidingWindow, 1_000_000_000, time.Hour)
	d := NewDeferred(NewCounts(memory(), 0), AllowAll{}, DeferredOptions{Receipts: true})
	s := d.Around(AllowAll{})
	b.Run("take+settle", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			asks, results := []limiter.Ask{one(l, "k")}, make([]limiter.Result, 1)
			for pb.Next() {
				_ = s.Take(context.Background(), asks, results)
				d.Settle(asks, results)
			}
		})
	})
	b.Run("count", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			asks := []limiter.Ask{one(l, "k")}
			for pb.Next() {
				d.Count(asks)
			}
		})
	})
}
