package storetest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// A Bared store shows the very bytes it keeps.
type Bared interface {
	limiter.Store
	// State returns what is kept under a key, nothing if it is fresh.
	State(t testing.TB, l *limiter.Limit, key string) []byte
}

// Twins sends random asks, changes, releases and renewals to a store that counts by other means than
// the Go algorithms, and to those, and compares every answer and every byte that is
// kept. Limits change their numbers, costs are of all sizes, the clock stands still, runs and
// steps back.
//
// The store must go by the clock that it is opened with. With names of several algorithms,
// steps ask limits of all of them at once.
func Twins(t testing.TB, open func(t testing.TB, now func() time.Time) Bared, seed uint64, steps int, names ...string) {
	t.Helper()
	w := &twins{
		t:    t,
		rng:  rand.New(rand.NewPCG(seed, 0)),
		now:  time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC),
		kept: map[state][]byte{},
	}
	w.store = open(t, func() time.Time { return w.now })
	for done := 0; done < steps && !t.Failed(); done += 200 {
		w.scene(names)
		for i := 0; i < 200 && !t.Failed(); i++ {
			w.step()
		}
		if t.Failed() {
			t.Logf("seed %d, about step %d", seed, done)
		}
	}
}

type twins struct {
	t      testing.TB
	rng    *rand.Rand
	store  Bared
	now    time.Time
	kept   map[state][]byte
	scenes int

	// Of the scene: what is asked, each limit with other numbers it may have, and
	// what times are of interest.
	zones  [][]*limiter.Limit
	window time.Duration
	past   []limiter.Instant
}

type state struct{ zone, key string }

// scene draws new limits, whose zones no scene before had.
func (w *twins) scene(names []string) {
	w.scenes++
	w.zones, w.past = nil, nil
	scale := []time.Duration{time.Microsecond, 9 * time.Microsecond, time.Millisecond, time.Second, 90 * time.Second, 24 * time.Hour}
	w.window = scale[w.rng.IntN(len(scale))] * time.Duration(1+w.rng.IntN(20))
	zones := 1 + w.rng.IntN(2)
	if len(names) > 1 {
		zones = len(names)
	}
	for z := range zones {
		name := names[z%len(names)]
		zone := string(rune('a'+z)) + time.Duration(w.scenes).String()
		var numbers []*limiter.Limit
		for len(numbers) < 3 {
			l := w.limit(name, zone)
			if l.Check() == nil && algorithm.Of(name).Check(l) == nil {
				numbers = append(numbers, l)
			}
		}
		w.zones = append(w.zones, numbers)
	}
}

func (w *twins) limit(name, zone string) *limiter.Limit {
	most := []int64{1, 2, 3, 5, 10, 63, 64, 65, 127, 128, 129, 640, 1000, 1 << 20, limiter.MaxEvents}
	l := &limiter.Limit{
		Zone: zone, Algorithm: name, Window: w.window,
		Events: most[w.rng.IntN(len(most))],
		Shadow: w.rng.IntN(6) == 0,
	}
	switch name {
	case limiter.SlidingLog:
		l.Events = 1 + l.Events%300
	case limiter.InFlight:
		l.Events = 1 + l.Events%8
	case limiter.MinInterval:
		l.Events = 1
	case limiter.TokenBucket:
		l.Burst = w.rng.Int64N(min(2*l.Events, limiter.MaxEvents))
	}
	if w.rng.IntN(3) == 0 {
		l.Window = max(l.Window/time.Duration(1+w.rng.IntN(4))/time.Microsecond, 1) * time.Microsecond
	}
	if w.rng.IntN(3) == 0 && name != limiter.InFlight {
		l.Ceiling = l.Window * time.Duration(1+w.rng.IntN(4))
	}
	return l
}

func (w *twins) step() {
	w.pass()
	w.past = append(w.past, limiter.At(w.now))
	var asks []limiter.Ask
	for _, numbers := range w.zones {
		if w.rng.IntN(4) > 0 {
			asks = append(asks, w.ask(numbers))
		}
	}
	switch what := w.rng.IntN(10); {
	case what == 0:
		w.adjust(asks)
	case what == 1:
		asks = w.release(asks)
	case what == 2 && w.leasing(asks):
		asks = w.renew(asks)
	default:
		w.take(asks)
	}
	for i := range asks {
		a := &asks[i]
		want, got := w.kept[stateOf(a.Limit, a.Key)], w.store.State(w.t, a.Limit, a.Key)
		if !bytes.Equal(got, want) {
			w.t.Errorf("%s: the store keeps\n%x, want\n%x\nafter %+v of %+v", a.Limit.Algorithm, got, want, *a, *a.Limit)
		}
	}
}

// pass lets time pass, mostly little, and sometimes steps back.
func (w *twins) pass() {
	span := int64(w.window / time.Microsecond)
	var us int64
	switch w.rng.IntN(12) {
	case 0, 1, 2:
	case 3, 4:
		us = w.rng.Int64N(20)
	case 5, 6, 7, 8:
		us = w.rng.Int64N(span/20 + 2)
	case 9:
		us = w.rng.Int64N(span + 1)
	case 10:
		us = w.rng.Int64N(3*span + 1)
	case 11:
		us = -w.rng.Int64N(span + 20)
		if w.rng.IntN(3) > 0 {
			us = 0
		}
	}
	w.now = w.now.Add(time.Duration(us) * time.Microsecond)
}

func (w *twins) ask(numbers []*limiter.Limit) limiter.Ask {
	l := numbers[0]
	if w.rng.IntN(8) == 0 {
		l = numbers[w.rng.IntN(len(numbers))]
	}
	a := limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: leaseName(w.rng.IntN(leaseNames))}
	switch w.rng.IntN(8) {
	case 0:
		a.Cost = 0
	case 1:
		a.Cost = 1 + w.rng.Int64N(l.Max())
	case 2:
		a.Cost = 1 + w.rng.Int64N(l.Max()/20+2)
	case 3:
		a.Cost = l.Max() + w.rng.Int64N(2)
	case 4:
		if w.rng.IntN(8) == 0 {
			a.Cost = 1 << 40
		}
	}
	return a
}

func (w *twins) take(asks []limiter.Ask) {
	now := limiter.At(w.now)
	want, got := make([]limiter.Result, len(asks)), make([]limiter.Result, len(asks))
	refused := false
	for i := range asks {
		a := &asks[i]
		want[i] = algorithm.Peek(algorithm.Of(a.Limit.Algorithm), now, w.kept[stateOf(a.Limit, a.Key)], a)
		refused = refused || !want[i].Allowed && !a.Limit.Shadow
	}
	for i := range asks {
		a := &asks[i]
		s, alg := stateOf(a.Limit, a.Key), algorithm.Of(a.Limit.Algorithm)
		switch {
		case !want[i].Allowed:
			w.kept[s], want[i], _ = algorithm.Refuse(alg, now, w.kept[s], a, want[i])
		case !refused && a.Cost > 0:
			w.kept[s], want[i] = algorithm.Spend(alg, now, w.kept[s], a)
		}
	}
	if err := w.store.Take(context.Background(), asks, got); err != nil {
		w.t.Fatal(err)
	}
	for i := range asks {
		if got[i] != want[i] {
			w.t.Errorf("%s: the store answers\n%+v, want\n%+v\nto %+v of %+v", asks[i].Limit.Algorithm, got[i], want[i], asks[i], *asks[i].Limit)
		}
	}
}

func (w *twins) adjust(asks []limiter.Ask) {
	now := limiter.At(w.now)
	var changes []limiter.Change
	for _, a := range asks {
		c := limiter.Change{Limit: a.Limit, Key: a.Key, Delta: a.Cost}
		if w.rng.IntN(4) > 0 {
			c.Delta = -c.Delta
		}
		if w.rng.IntN(3) > 0 {
			c.Spent = w.past[max(len(w.past)-1-w.rng.IntN(40), 0)]
		}
		s := stateOf(a.Limit, a.Key)
		w.kept[s], _ = algorithm.Adjust(algorithm.Of(a.Limit.Algorithm), now, w.kept[s], &c)
		changes = append(changes, c)
	}
	if err := w.store.Adjust(context.Background(), changes); err != nil {
		w.t.Fatal(err)
	}
}

// release gives leases back, several of a state in one call.
func (w *twins) release(asks []limiter.Ask) []limiter.Ask {
	now := limiter.At(w.now)
	asks = w.crowd(asks)
	for i := range asks {
		a := &asks[i]
		s := stateOf(a.Limit, a.Key)
		w.kept[s] = algorithm.Release(algorithm.Of(a.Limit.Algorithm), now, w.kept[s], a)
	}
	if err := w.store.Release(context.Background(), asks); err != nil {
		w.t.Fatal(err)
	}
	return asks
}

// renew renews leases, several of a state in one call.
func (w *twins) renew(asks []limiter.Ask) []limiter.Ask {
	now := limiter.At(w.now)
	asks = w.crowd(asks)
	for i := range asks {
		a := &asks[i]
		s := stateOf(a.Limit, a.Key)
		w.kept[s], _ = algorithm.Renew(algorithm.Of(a.Limit.Algorithm), now, w.kept[s], a)
	}
	if err := w.store.(limiter.Renewer).Renew(context.Background(), asks); err != nil {
		w.t.Fatal(err)
	}
	return asks
}

// leasing reports whether any of the asks is for a lease.
func (w *twins) leasing(asks []limiter.Ask) bool {
	return slices.ContainsFunc(asks, func(a limiter.Ask) bool { return a.Limit.Algorithm == limiter.InFlight })
}

// crowd puts a few leases of its state, each once, in the place of every ask.
func (w *twins) crowd(asks []limiter.Ask) []limiter.Ask {
	var all []limiter.Ask
	for _, a := range asks {
		for _, n := range w.rng.Perm(leaseNames)[:1+w.rng.IntN(4)] {
			a.Lease = leaseName(n)
			all = append(all, a)
		}
	}
	return all
}

const leaseNames = 12

func leaseName(n int) string { return string(rune('a' + n)) }

func stateOf(l *limiter.Limit, key string) state { return state{l.Zone, key} }
