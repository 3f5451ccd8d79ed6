package layer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A flood that a deferred limit refuses makes no call about the other limits that it meets, save now and
// then, and is told of them what the store said.
func TestDeferredRefusedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store, outer := remembering(DenyCacheOptions{})
		p := newPlace(t, store.Store, DeferredOptions{})
		defer p.stop()
		s := p.d.Around(outer)
		deferred := after(limiter.SlidingLog, 3, time.Hour)
		wide, spent, seats := limitOf(limiter.SlidingLog), limitOf(limiter.TokenBucket), limitOf(limiter.InFlight)
		spent.Zone, wide.Window, spent.Window = "spent", time.Hour, time.Hour
		request := []limiter.Ask{askOf(deferred, "k", 1), askOf(wide, "k", 1), askOf(seats, "k", 1)}
		for range deferred.Events {
			if r := take(t, s, request...); refused(request, r) {
				t.Fatalf("refused at once: %+v", r)
			}
		}
		for range spent.Events {
			take(t, s, askOf(spent, "k", 1))
		}
		request = append(request, askOf(spent, "k", 1))
		store.takes.Store(0)
		const length = 20 * time.Second
		for start := time.Now(); time.Since(start) < length; pass(time.Millisecond) {
			r := take(t, s, request...)
			if r[0].Allowed || !r[1].Allowed || !r[2].Allowed || r[3].Allowed {
				t.Fatalf("got %+v", r)
			}
			if r[1].Remaining != wide.Events-deferred.Events {
				t.Fatalf("%d left beside it, want %d", r[1].Remaining, wide.Events-deferred.Events)
			}
			if wait := spent.Window/time.Duration(spent.Events) - time.Since(start); r[3].Wait < wait-time.Millisecond || r[3].Wait > wait+time.Millisecond {
				t.Fatalf("to wait %s beside it, want %s", r[3].Wait, wait)
			}
		}
		if calls, most := store.takes.Load(), int64(2*length/DefaultDenyCacheCap); calls > most {
			t.Errorf("%d calls in %s, want %d at most", calls, length, most)
		}
		// What an operator sets free is told at once.
		if err := s.Reset(t.Context(), spent, "k"); err != nil {
			t.Fatal(err)
		}
		if r := take(t, s, request...); r[0].Allowed || !r[3].Allowed || r[3].Remaining != spent.Max() {
			t.Errorf("after a reset: %+v", r)
		}
	})
}
