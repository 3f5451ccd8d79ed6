package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// spread opens a store on a cluster, closed at the test's end.
func spread(t testing.TB, c *redistest.ClusterSet, o Options) *Store {
	t.Helper()
	o.Addresses, o.Timeout = c.Addrs(), cmp.Or(o.Timeout, patient)
	store, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestClusterStore(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		return spread(t, c, Options{Now: now, Prefix: rand.Text() + ":"})
	})
}

// subjectAndSite asks two limits of a subject, which lie together, and one that all share.
func subjectAndSite(site int64) func(subject string) []limiter.Ask {
	hour, day := limitOf(limiter.SlidingWindow, 20), limitOf(limiter.FixedWindow, 30)
	day.Window = 24 * time.Hour
	all := &limiter.Limit{Zone: "site", Algorithm: limiter.FixedWindow, Events: site, Window: time.Hour}
	return func(subject string) []limiter.Ask {
		return []limiter.Ask{
			{Limit: all, Key: "everybody", Cost: 1},
			{Limit: hour, Key: subject, Cost: 1},
			{Limit: day, Key: subject, Cost: 1},
		}
	}
}

// L98: limits in several slots are decided together as well as can be: neither is exceeded,
// and what a refused request was charged is given back.
func TestLimitsInSeveralSlots(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	stores := []*Store{spread(t, c, Options{}), spread(t, c, Options{})}
	asks := subjectAndSite(500)
	p := pound(t, stores, 100, asks)
	p.decided(5000)
	p.end()
	if p.failures > 0 {
		t.Errorf("%d calls were not decided: %v", p.failures, p.last)
	}
	passed, total := p.counts(), int64(0)
	within(t, "", passed, 20)
	for _, n := range passed {
		total += n
	}
	if total != 500 {
		t.Errorf("%d passed of a limit of 500", total)
	}
	// Nobody was charged for more than what passed.
	for i := range 100 {
		subject := strconv.Itoa(i)
		for j, ask := range asks(subject)[1:] {
			most := []int64{20, 30}[j]
			if r := take(t, stores[0], ask.Limit, subject, 0); r.Remaining != most-passed[subject] {
				t.Errorf("%s: %d of %d left after %d", subject, r.Remaining, most, passed[subject])
			}
		}
	}
	// The subject refuses: the limit that is shared is not charged.
	asks = subjectAndSite(1000)
	for range 3 {
		a := asks("a")
		a[1].Cost = 20
		var r [3]limiter.Result
		if err := stores[0].Take(background, a, r[:]); err != nil {
			t.Fatal(err)
		}
		if want := int64(499); r[0].Remaining != want {
			t.Errorf("shared limit: %+v, want %d left", r[0], want)
		}
	}
}

// onFirst reports whether what is counted for a subject lies on the first master.
func onFirst(s *Store, subject int) bool {
	return slotOf("{"+s.hasher.Load().String(strconv.Itoa(subject))+"}") < slots/3
}

func lostSubject(s *Store) string {
	for i := 0; ; i++ {
		if onFirst(s, i) {
			return strconv.Itoa(i)
		}
	}
}

// A master is lost while everybody asks: no call fails otherwise than by being undecided, or
// takes too long, those of other masters go on, and what the replica had is not allowed
// again.
func TestClusterLosesMaster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	lost := c.Masters[0]
	stores := []*Store{spread(t, c, Options{Timeout: steady}), spread(t, c, Options{Timeout: steady})}
	p := pound(t, stores, 60, perSubject)
	p.decided(60 * 20 * 3)
	p.end()
	before := p.counts()
	within(t, "before", before, 20)
	eventually(t, func() error {
		if !c.Replicas[0].Caught(lost) {
			return errNotYet
		}
		return nil
	})

	// Sixty subjects are at their limit, sixty are new.
	p = pound(t, stores, 120, perSubject)
	p.decided(100)
	old := p.counts()
	lost.Kill()
	p.decided(500) // by the other masters
	c.AwaitMaster(c.Replicas[0])
	p.recovered(func(s *Store) error {
		_, err := tryTake(s, limitOf(limiter.SlidingWindow, 20), lostSubject(stores[0]), 0)
		return err
	})
	p.end()
	p.inTime(steady)
	after := p.counts()
	within(t, "before the master died", old, 20)
	for i := range 120 {
		subject, lostIt := strconv.Itoa(i), onFirst(stores[0], i)
		switch n := after[subject]; {
		case i < 60 && n > 0:
			t.Errorf("%d passed for %s, which was at its limit", n, subject)
		case !lostIt && old[subject]+n > 20:
			t.Errorf("%d passed for %s, whose master was well", old[subject]+n, subject)
		case n > 20:
			t.Errorf("%d passed for %s on the new master", n, subject)
		}
	}
}

// Slots are moved to another node while everybody asks for keys in them, of which some have
// moved and some have not: nothing is allowed twice, and everything is decided.
func TestSlotsMove(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{Config: []string{
		"user least on >open ~weir:* resetchannels " + minimal + " +cluster|slots +asking",
	}})
	o := Options{ClearKeys: true, Username: "least", Password: "open"}
	stores := []*Store{spread(t, c, o), spread(t, c, o)}
	// Six limits of a subject, so that a slot that moves holds several keys of a request,
	// and one that all share, which lies elsewhere.
	all := &limiter.Limit{Zone: "site", Algorithm: limiter.FixedWindow, Events: limiter.MaxEvents, Window: time.Hour}
	var limits []*limiter.Limit
	for i := range 6 {
		l := limitOf(limiter.FixedWindow, 2000)
		l.Index = i
		limits = append(limits, l)
	}
	const subjects = 8
	p := pound(t, stores, subjects, func(subject string) []limiter.Ask {
		asks := []limiter.Ask{{Limit: all, Key: "everybody", Cost: 1}}
		for _, l := range limits {
			asks = append(asks, limiter.Ask{Limit: l, Key: subject, Cost: 1})
		}
		return asks
	})
	p.decided(500)
	owner := func(slot int) *redistest.Server {
		for i := 2; ; i-- {
			if slot >= i*slots/3 {
				return c.Masters[i]
			}
		}
	}
	for i := range subjects {
		slot := slotOf(fmt.Sprintf("{%d}", i))
		from := owner(slot)
		to := c.Masters[0]
		if from == to {
			to = c.Masters[1]
		}
		c.Move(slot, from, to, func() { p.decided(100) })
	}
	p.decided(1000)
	p.end()
	if p.failures > 0 {
		t.Errorf("%d calls were not decided: %v", p.failures, p.last)
	}
	passed := p.counts()
	within(t, "", passed, 2000)
	for i := range subjects {
		subject := strconv.Itoa(i)
		for _, l := range limits {
			// A charge that could not be given back for a moment refuses, at most.
			if r := take(t, stores[0], l, subject, 0); r.Remaining > 2000-passed[subject] {
				t.Errorf("%s: %d left after %d", subject, r.Remaining, passed[subject])
			}
		}
	}
}

// A request over several slots is answered as on one server, step by step, whatever is asked,
// as long as nobody else asks at the same time.
func TestClusterAgreesWithOneServer(t *testing.T) {
	clock := storetest.NewClock()
	o := Options{Now: clock.Now, Secret: []byte("s")}
	one := open(t, redistest.Start(t, redistest.Options{}), o)
	many := spread(t, redistest.StartCluster(t, redistest.Options{}), o)
	var limits []*limiter.Limit
	for i, a := range []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.TokenBucket, limiter.MinInterval, limiter.SlidingWindow, limiter.SlidingLog} {
		l := limitOf(a, int64(4+3*i))
		l.Window = time.Duration(i+1) * time.Second
		l.Zone = fmt.Sprint("zone", i)
		if i%3 == 1 {
			l.Ceiling = 2 * l.Window
		}
		l.Shadow = i == 4
		limits = append(limits, l)
	}
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for step := range 3000 {
		var asks []limiter.Ask
		for _, l := range limits {
			if random.IntN(2) == 0 {
				asks = append(asks, limiter.Ask{Limit: l, Key: strconv.Itoa(random.IntN(3)), Cost: []int64{0, 1, 1, 1, 1, 2, 5, 50}[random.IntN(8)]})
			}
		}
		want, got := make([]limiter.Result, len(asks)), make([]limiter.Result, len(asks))
		if err := errors.Join(one.Take(background, asks, want), many.Take(background, asks, got)); err != nil {
			t.Fatal(err)
		}
		for i := range asks {
			if got[i] != want[i] {
				t.Fatalf("step %d: %s, a cost of %d:\n%+v in the cluster\n%+v on one server", step, asks[i].Limit.Algorithm, asks[i].Cost, got[i], want[i])
			}
		}
		clock.Advance(time.Duration(random.IntN(400)) * time.Millisecond)
	}
}

// Asks that only look charge nothing, so that no slot waits for the answer of another: nodes are asked
// at the same time.
func TestSlotsAreLookedAtTogether(t *testing.T) {
	s := spread(t, redistest.StartCluster(t, redistest.Options{}), Options{ClearKeys: true})
	l := limitOf(limiter.SlidingLog, 5)
	var asks []limiter.Ask
	nodes := make(map[*node]bool)
	for i := 0; len(nodes) < 3; i++ {
		key := strconv.Itoa(i)
		take(t, s, l, key, 2)
		n, err := s.link.home(background, slotOf("{"+key+"}"))
		if err != nil {
			t.Fatal(err)
		}
		nodes[n] = true
		asks = append(asks, limiter.Ask{Limit: l, Key: key})
	}
	var reached atomic.Int32
	all := make(chan struct{}) // closed when each node has a call
	for n := range nodes {
		var once sync.Once
		carry := n.lane.carry
		n.lane.carry = func(ctx context.Context, calls []*call) {
			once.Do(func() {
				if reached.Add(1) == int32(len(nodes)) {
					close(all)
				}
			})
			select {
			case <-all:
				carry(ctx, calls)
			case <-ctx.Done():
				for _, c := range calls {
					c.reply(answer{}, ctx.Err())
				}
			}
		}
	}
	results := make([]limiter.Result, len(asks))
	if err := s.Take(background, asks, results); err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if !r.Allowed || r.Remaining != 3 {
			t.Errorf("%s: got %+v, want 3 left", asks[i].Key, r)
		}
	}
}
