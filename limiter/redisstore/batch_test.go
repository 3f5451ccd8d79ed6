package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// What holds for a call that is alone holds for one that shares its trip.
func TestStoreInCrowd(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		return crowded{alone(s)(t, now).(bared), t}
	})
}

func TestTwinsInCrowd(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	open := func(t testing.TB, now func() time.Time) storetest.Bared {
		return crowded{alone(s)(t, now).(bared), t}
	}
	var names []string
	for _, a := range algorithm.All {
		names = append(names, a.Name())
		storetest.Twins(t, open, 3, 400, a.Name())
	}
	storetest.Twins(t, open, 4, 600, names...)
}

// Requests that share a trip are answered as if they had come one after the other, whatever they
// ask and however often one key stands in them.
func TestTripAgreesWithOneByOne(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	clock := storetest.NewClock()
	store := open(t, s, Options{Now: clock.Now, Secret: []byte("s")})
	model := memstore.New(memstore.Options{MaxKeys: 10_000, Now: clock.Now})
	random := rand.New(rand.NewPCG(3, 4))
	var limits []*limiter.Limit
	for i, a := range algorithm.All {
		for j := range int64(2) {
			l := limitOf(a.Name(), 3+9*j)
			l.Zone, l.Index, l.Window = fmt.Sprint("zone", j), i, time.Duration(1+i)*time.Second
			l.Shadow = random.IntN(5) == 0
			if random.IntN(4) == 0 && a.Name() != limiter.InFlight {
				l.Ceiling = 3 * l.Window
			}
			limits = append(limits, l)
		}
	}
	for trip := range 300 {
		requests := make([][]limiter.Ask, 1+random.IntN(40))
		for i := range requests {
			for _, at := range random.Perm(len(limits))[:1+random.IntN(4)] {
				requests[i] = append(requests[i], limiter.Ask{
					Limit: limits[at], Key: strconv.Itoa(random.IntN(3)),
					Cost:  []int64{0, 1, 1, 1, 1, 2, 3, 50}[random.IntN(8)],
					Lease: strconv.Itoa(random.IntN(20)),
				})
			}
		}
		got, errs := together(t, store, requests)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for i, asks := range requests {
			want := make([]limiter.Result, len(asks))
			if err := model.Take(background, asks, want); err != nil {
				t.Fatal(err)
			}
			for j := range asks {
				if got[i][j] != want[j] {
					t.Fatalf("trip %d, request %d of %d: %s, a cost of %d:\n%+v by a trip\n%+v one by one",
						trip, i, len(requests), asks[j].Limit.Algorithm, asks[j].Cost, got[i][j], want[j])
				}
			}
		}
		clock.Advance(time.Duration(random.IntN(900)) * time.Millisecond)
	}
}

// A dam holds a store's calls up until all are there that shall share the next trip.
type dam struct {
	t    *testing.T
	lane *lane
	open chan struct{}
}

// stop lets one trip at a time through, and none as yet.
func stop(t *testing.T, n *node) *dam {
	d := &dam{t, &n.lane, make(chan struct{})}
	carry := n.lane.carry
	n.lane.few, n.lane.most = 1, 1
	n.lane.carry = func(ctx context.Context, calls []*call) {
		<-d.open
		carry(ctx, calls)
	}
	return d
}

// let opens the dam as soon as so many calls wait behind the first.
func (d *dam) let(waiting int) {
	eventually(d.t, func() error {
		d.lane.mu.Lock()
		defer d.lane.mu.Unlock()
		if d.lane.waiting < waiting {
			return errNotYet
		}
		return nil
	})
	close(d.open)
}

// alongside takes all asks at once, each for itself, and returns what becomes of each.
func alongside(s *Store, asks []limiter.Ask) ([]limiter.Result, []error, *sync.WaitGroup) {
	results, errs := make([]limiter.Result, len(asks)), make([]error, len(asks))
	var wg sync.WaitGroup
	for i := range asks {
		wg.Go(func() { errs[i] = s.Take(background, asks[i:i+1], results[i:i+1]) })
	}
	return results, errs, &wg
}

// L25, L44: of 200 at once that ask for one key as many pass as may, though all of them share three
// trips.
func TestCrowdPassesNoMore(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for _, a := range algorithm.All {
		store := open(t, s, Options{Secret: []byte("s")})
		d := stop(t, lonely(store))
		l := limitOf(a.Name(), 10)
		var asks []limiter.Ask
		for i := range 200 {
			asks = append(asks, limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: strconv.Itoa(i)})
		}
		results, errs, wg := alongside(store, asks)
		d.let(199)
		wg.Wait()
		passed := int64(0)
		for _, r := range results {
			if r.Allowed {
				passed++
			}
		}
		if err := errors.Join(errs...); err != nil || passed != l.Events {
			t.Errorf("%s: %d passed of 200, want %d (%v)", a.Name(), passed, l.Events, err)
		}
	}
}

func lonely(s *Store) *node { return s.link.(single).node }

// A script that the server has forgotten has not run, for however many it was called.
func TestForgottenByCrowd(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s")})
	d := stop(t, lonely(store))
	var asks []limiter.Ask
	for i := range 50 {
		asks = append(asks, limiter.Ask{Limit: limitOf(limiter.FixedWindow, 100), Key: "k", Cost: 1})
		asks = append(asks, limiter.Ask{Limit: limitOf(limiter.SlidingLog, 100), Key: strconv.Itoa(i), Cost: 1})
	}
	_, errs, wg := alongside(store, asks)
	s.Do("SCRIPT FLUSH")
	d.let(99)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if r := take(t, store, asks[0].Limit, "k", 0); r.Remaining != 50 {
		t.Errorf("%d left of 100 after 50", r.Remaining)
	}
}

// What is wrong with one request is not wrong with those that share its trip, and nobody is charged
// twice for it.
func TestErrorsStayApart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{ClearKeys: true})
	l := limitOf(limiter.FixedWindow, 100)
	ask := func(key string) []limiter.Ask { return []limiter.Ask{{Limit: l, Key: key, Cost: 1}} }
	s.Do("LPUSH weir:api:f0:{foreign} x")
	requests := [][]limiter.Ask{ask("a"), ask("foreign"), ask("a"), ask("foreign"), ask("b")}
	results, errs := together(t, store, requests)
	for i, want := range []int64{99, -1, 98, -1, 99} {
		switch {
		case want < 0 && (errs[i] == nil || !strings.HasPrefix(errs[i].Error(), "WRONGTYPE")):
			t.Errorf("request %d: got %v", i, errs[i])
		case want >= 0 && (errs[i] != nil || results[i][0].Remaining != want):
			t.Errorf("request %d: got %+v (%v), want %d left", i, results[i][0], errs[i], want)
		}
	}
	// The store makes good what can be.
	d := stop(t, lonely(store))
	asks := []limiter.Ask{ask("a")[0], ask("foreign")[0], ask("a")[0], ask("foreign")[0], ask("b")[0]}
	_, errs, wg := alongside(store, asks)
	d.let(4)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"a": 96, "foreign": 98, "b": 98} {
		if r := take(t, store, l, key, 0); r.Remaining != want {
			t.Errorf("%s: %d left, want %d", key, r.Remaining, want)
		}
	}
}

// A full server takes no writes of a crowd either, and nothing of it is half done; who only has to
// be refused is refused.
func TestOutOfMemoryInCrowd(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s")})
	l := limitOf(limiter.SlidingWindow, 2)
	take(t, store, l, "full", 2)
	s.Do("CONFIG SET maxmemory 100kb")
	ask := func(key string) []limiter.Ask { return []limiter.Ask{{Limit: l, Key: key, Cost: 1}} }
	results, errs := together(t, store, [][]limiter.Ask{ask("a"), ask("full"), ask("b")})
	if errs[0] == nil || errs[2] == nil || !strings.Contains(unavailable(errs[0]).Error(), "memory is full") {
		t.Errorf("got %v", errs)
	}
	if errs[1] != nil || results[1][0].Allowed {
		t.Errorf("of who is at the limit: %+v, %v", results[1][0], errs[1])
	}
	s.Do("CONFIG SET maxmemory 0")
	if r := take(t, store, l, "a", 0); r.Remaining != 2 {
		t.Errorf("got %+v, want 2 left", r)
	}
}

// Calls that come while the server hangs are given up, whether they wait or are under way, each is
// charged once at most, and nothing stays behind.
func TestCrowdGivesUp(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{Secret: []byte("s"), Timeout: 200 * time.Millisecond})
	l := limitOf(limiter.FixedWindow, 10_000)
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	before := take(t, open(t, s, Options{Secret: []byte("s")}), l, "k", 0).Remaining
	s.Pause()
	const calls = 500
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	s.Resume()
	r := take(t, open(t, s, Options{Secret: []byte("s")}), l, "k", 0)
	if used := before - r.Remaining; used < 0 || used > calls {
		t.Errorf("%d calls were counted as %d", calls, used)
	}
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	n := lonely(store)
	eventually(t, func() error {
		n.lane.mu.Lock()
		defer n.lane.mu.Unlock()
		if n.lane.trips > 0 || n.lane.waiting > 0 {
			return fmt.Errorf("%d trips are under way, %d calls wait", n.lane.trips, n.lane.waiting)
		}
		return nil
	})
}
