package layer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A torn store is several servers, of which those fail that have a key with a dead letter: a call fails
// if it needs one of these, though the others did what they were told.
type torn struct {
	limiter.Store
	dead atomic.Bool
}

func (s *torn) lost(key string) bool { return s.dead.Load() && key[0] == 'x' }

func (s *torn) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	for i := range asks {
		if s.lost(asks[i].Key) {
			return errDown
		}
	}
	return s.Store.Take(ctx, asks, results)
}

func (s *torn) Adjust(ctx context.Context, changes []limiter.Change) error {
	through := passing(changes, func(c *limiter.Change) bool { return !s.lost(c.Key) })
	if err := s.Store.Adjust(ctx, through); err != nil || len(through) == len(changes) {
		return err
	}
	return errDown
}

// Row L20: what waits for a server that is away holds up nothing that is for others, and is sent when
// it is back, once.
func TestDeferredPartOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &torn{Store: memory()}
		o := DeferredOptions{Receipts: true, Lane: func(asks []limiter.Ask) int { return int(asks[0].Key[0]) }}
		a, b := newPlace(t, store, o), newPlace(t, store, o)
		defer a.stop()
		defer b.stop()
		l := after(limiter.SlidingLog, 100, time.Hour)
		store.dead.Store(true)
		for range 3 {
			for i := range 5 * sendBatch {
				for _, p := range []*place{a, b} {
					p.serve(t, one(l, fmt.Sprint("x", i)))
					p.serve(t, one(l, fmt.Sprint("y", i)))
				}
			}
			time.Sleep(2 * aWhile)
			synctest.Wait()
		}
		for i := range 5 * sendBatch {
			if n := leftOf(t, store.Store, l, fmt.Sprint("y", i)); n != 94 {
				t.Fatalf("y%d: %d left, want 94: its server is well", i, n)
			}
		}
		store.dead.Store(false)
		time.Sleep(2 * aWhile)
		synctest.Wait()
		for i := range 5 * sendBatch {
			if n := leftOf(t, store.Store, l, fmt.Sprint("x", i)); n != 94 {
				t.Fatalf("x%d: %d left, want 94: its server has been told once", i, n)
			}
		}
	})
}
