package memstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// Rows B10, B44: when the table is full of keys that count, new keys share one budget, the known
// ones keep theirs, and the table does not grow.
func TestFull(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 10, Now: clock.Now})
	l := limit(limiter.SlidingWindow)
	for i := range 10 {
		for range 4 {
			take(t, s, l, fmt.Sprint("known", i), 1)
		}
	}
	passed := 0
	for i := range 1000 {
		if take(t, s, l, fmt.Sprint("new", i), 1).Allowed {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d of 1000 new keys passed, want 3", passed)
	}
	if n := s.Len(); n != 11 {
		t.Errorf("%d keys are held, want 10 and the shared one", n)
	}
	for i := range 10 {
		if r := take(t, s, l, fmt.Sprint("known", i), 1); r.Allowed {
			t.Errorf("known key %d was forgotten: %+v", i, r)
		}
	}
	// Others share the budget of their own limit only, and see it by a look.
	other := limit(limiter.FixedWindow)
	if r := take(t, s, other, "new", 1); !r.Allowed || r.Remaining != 2 {
		t.Errorf("another limit: %+v", r)
	}
	if r := take(t, s, l, "never seen", 0); r.Remaining != 0 {
		t.Errorf("a look at a key without room: %+v", r)
	}
	// Once the known ones have run out there is room again.
	clock.Advance(l.Window + time.Second)
	for i := range 10 {
		if r := take(t, s, l, fmt.Sprint("later", i), 1); !r.Allowed || r.Remaining != 2 {
			t.Errorf("key %d after all have run out: %+v", i, r)
		}
	}
	if n := s.Len(); n > 11 {
		t.Errorf("%d keys are held after all", n)
	}
}

// What was taken in the shared budget is given back there only by a lease's name.
func TestFullChanges(t *testing.T) {
	clock := storetest.NewClock()
	s := New(Options{MaxKeys: 1, Now: clock.Now})
	l, flight := limit(limiter.SlidingWindow), limit(limiter.InFlight)
	take(t, s, l, "known", 1)
	take(t, s, l, "a", 2)
	ctx := context.Background()
	change := []limiter.Change{{Limit: l, Key: "b", Delta: -2}, {Limit: l, Key: "c", Delta: 1}}
	if err := s.Adjust(ctx, change); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, l, "d", 0); r.Remaining != 0 {
		t.Errorf("a refund to a key that is not held: %+v", r)
	}
	for _, key := range []string{"a", "b", "c"} {
		take(t, s, flight, key, 1)
	}
	if err := s.Release(ctx, []limiter.Ask{{Limit: flight, Key: "b", Lease: "b"}}); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, flight, "d", 0); r.Remaining != 1 {
		t.Errorf("after one of three shared leases was given back: %+v", r)
	}
}
