package layer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
)

// Give-backs and resets free a key at once, here and, if they are an operator's, elsewhere.
func TestDenyCacheForgets(t *testing.T) {
	l := limitOf(limiter.FixedWindow)
	change := func(delta int64, spent limiter.Instant) func(limiter.Store) error {
		return func(s limiter.Store) error {
			return s.Adjust(context.Background(), []limiter.Change{{Limit: l, Key: "k", Delta: delta, Spent: spent}})
		}
	}
	for _, c := range []struct {
		name  string
		do    func(limiter.Store) error
		freed bool
		told  bool
	}{
		{"reset", func(s limiter.Store) error { return s.Reset(context.Background(), l, "k") }, true, true},
		{"reset of another", func(s limiter.Store) error { return s.Reset(context.Background(), l, "other") }, false, true},
		{"grant", change(-1, 0), true, true},
		{"refund", change(-1, 1), true, false},
		{"charge", change(1, 0), false, false}, // it is asked again, to the same end
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told int
				name := func(l *limiter.Limit, key string) string { return l.Zone + key }
				elsewhere, far, there := remembering(DenyCacheOptions{Name: name})
				cache, store, s := remembering(DenyCacheOptions{
					Name: name,
					Tell: func(_ context.Context, l *limiter.Limit, key string) {
						told++
						elsewhere.ForgetName(l.Zone + key)
					},
				})
				far.Store = store.Store
				for range l.Events + 1 {
					take(t, s, askOf(l, "k", 1))
				}
				take(t, there, askOf(l, "k", 1))
				if err := c.do(s); err != nil {
					t.Fatal(err)
				}
				if c.freed && c.name == "refund" {
					// Only a step of its own window is given back, which matters to the store.
					store.takes.Store(0)
					take(t, s, askOf(l, "k", 1))
					if store.takes.Load() != 1 {
						t.Error("not forgotten")
					}
				} else if r := take(t, s, askOf(l, "k", 1))[0]; r.Allowed != c.freed {
					t.Errorf("here: %+v", r)
				}
				if c.told != (told == 1) || told > 1 {
					t.Errorf("told %d times", told)
				}
				far.takes.Store(0)
				take(t, there, askOf(l, "k", 1))
				if asked := far.takes.Load() == 1; asked != (c.told && c.freed) {
					t.Errorf("elsewhere the store was asked: %t", asked)
				}
				cache.Clear()
			})
		})
	}
}

// slowly is a store whose answers to Take are held up after they were made.
type slowly struct {
	limiter.Store

	made, send chan struct{}
}

func (s *slowly) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	err := s.Store.Take(ctx, asks, results)
	s.made <- struct{}{}
	<-s.send
	return err
}

// A refusal that was on its way while the key was reset, here or elsewhere, is not remembered.
func TestDenyCacheLateRefusal(t *testing.T) {
	l := limitOf(limiter.FixedWindow)
	name := func(l *limiter.Limit, key string) string { return key }
	for what, forget := range map[string]func(c *DenyCache, s limiter.Store) error{
		"reset here": func(c *DenyCache, s limiter.Store) error { return s.Reset(context.Background(), l, "k") },
		"elsewhere":  func(c *DenyCache, s limiter.Store) error { c.ForgetName("k"); return nil },
		"a gap":      func(c *DenyCache, s limiter.Store) error { c.Clear(); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New(memstore.Options{Now: storeTime})
			slow := &slowly{store, make(chan struct{}), make(chan struct{})}
			cache := NewDenyCache(DenyCacheOptions{Name: name})
			s := cache.Around(slow)
			take(t, store, askOf(l, "k", 10))
			go func() { _ = s.Take(context.Background(), []limiter.Ask{askOf(l, "k", 1)}, make([]limiter.Result, 1)) }()
			<-slow.made
			if err := store.Reset(t.Context(), l, "k"); err != nil {
				t.Fatal(err)
			}
			if err := forget(cache, s); err != nil {
				t.Fatal(err)
			}
			slow.send <- struct{}{}
			synctest.Wait()
			go func() { <-slow.made; slow.send <- struct{}{} }()
			if r := take(t, s, askOf(l, "k", 1))[0]; !r.Allowed {
				t.Errorf("%s: %+v", what, r)
			}
		})
	}
}

// After Cap one request asks the store for all others. If the store has forgotten the key, or
// is away, so does the cache.
func TestDenyCacheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, s := remembering(DenyCacheOptions{})
		l := &limiter.Limit{Zone: "z", Algorithm: limiter.FixedWindow, Events: 1, Window: time.Hour}
		ask := askOf(l, "k", 1)
		take(t, s, ask)
		take(t, s, ask)
		for range 3 {
			store.takes.Store(0)
			pass(DefaultDenyCacheCap)
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if r := take(t, s, ask)[0]; r.Allowed {
						t.Errorf("%+v", r)
					}
				})
			}
			wg.Wait()
			if n := store.takes.Load(); n != 1 {
				t.Errorf("%d calls, want 1", n)
			}
		}
		if err := store.Reset(t.Context(), l, "k"); err != nil {
			t.Fatal(err)
		}
		pass(DefaultDenyCacheCap - time.Microsecond)
		if r := take(t, s, ask)[0]; r.Allowed {
			t.Errorf("before the cap: %+v", r)
		}
		pass(time.Microsecond)
		var origins []limiter.Origin
		for range 2 {
			origins = append(origins, take(t, s, ask)[0].Origin)
		}
		if !slices.Equal(origins, []limiter.Origin{limiter.Exactly, limiter.Exactly}) {
			t.Errorf("after the cap answers are %v", origins)
		}
	})
}
