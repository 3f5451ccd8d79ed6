package layer

import (
	"context"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A trip asks the store about requests under the same keys together, and fetches a
// reserve at the same time.
type trip struct {
	asks    []limiter.Ask // as the first request asked them
	costs   []int64       // of all requests together
	results []limiter.Result
	err     error
	passed  bool
	alone   bool // fetches no reserve
	landed  chan struct{}
}

// travel takes a request along on a trip, if all its keys are busy and have enough left. It reports
// whether the request passed; if not, and there is no error, it has to be asked about alone.
func (v *Reserves) travel(ctx context.Context, now time.Time, asks []limiter.Ask, results []limiter.Result) (bool, error) {
	for i := range asks {
		if !v.busy(now, &asks[i]) {
			return false, nil
		}
	}
	t, before, leads := v.board(asks)
	if t == nil {
		return false, nil
	}
	switch {
	case !leads:
		<-t.landed
	case before != nil:
		<-before.landed
		v.depart(ctx, t, before.err)
	default:
		v.depart(ctx, t, nil)
	}
	if !t.passed {
		return false, t.err
	}
	for i := range asks {
		v.arrived(&asks[i], &t.results[i], &results[i])
	}
	return true, nil
}

// alone asks the store about a request for what it needs beyond what is held.
func (v *Reserves) alone(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	t := newTrip(asks)
	t.alone = true
	passed, err := v.fetch(ctx, t)
	if err != nil {
		return err
	}
	copy(results, t.results)
	now := v.o.Now()
	for i := range asks {
		if passed {
			v.arrived(&asks[i], &t.results[i], &results[i])
		} else {
			v.heard(now, &asks[i], &results[i])
		}
	}
	return nil
}

// busy reports whether its key is busy and has enough left that it is worth
// a reserve.
func (v *Reserves) busy(now time.Time, a *limiter.Ask) bool {
	hold := v.termsOf(a.Limit).hold
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.keys[nameOf(a.Limit, a.Key)]
	if e == nil || e.asks+e.before < busyAsks || now.Sub(e.since) >= 2*hold || a.Cost > e.left/leftShare {
		return false
	}
	e.limit = a.Limit
	return true
}

// board finds a trip for a request: one that starts now, or the one that gathers while another is
// under way, which is returned as well. The request leads it if it is the first. nil is
// returned if it has to go alone.
func (v *Reserves) board(asks []limiter.Ask) (t, before *trip, leads bool) {
	first := &asks[0]
	sh := v.shardOf(first.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.keys[nameOf(first.Limit, first.Key)]
	switch {
	case e == nil:
		return nil, nil, false
	case e.next != nil:
		if !e.next.take(asks, e.left) {
			return nil, nil, false
		}
		return e.next, nil, false
	case e.trip != nil:
		e.next = newTrip(asks)
		return e.next, e.trip, true
	}
	e.trip = newTrip(asks)
	return e.trip, nil, true
}

func newTrip(asks []limiter.Ask) *trip {
	t := &trip{
		asks:    append([]limiter.Ask(nil), asks...),
		costs:   make([]int64, len(asks)),
		results: make([]limiter.Result, len(asks)),
		landed:  make(chan struct{}),
	}
	for i := range asks {
		t.costs[i] = asks[i].Cost
	}
	return t
}

// take lets a request come along if it asks of the same limits under the same keys, and all
// together ask for no large part of what the first key has left.
func (t *trip) take(asks []limiter.Ask, left int64) bool {
	if len(asks) != len(t.asks) || t.costs[0]+asks[0].Cost > left/leftShare {
		return false
	}
	for i := range asks {
		if asks[i].Limit != t.asks[i].Limit || asks[i].Key != t.asks[i].Key {
			return false
		}
	}
	for i := range asks {
		t.costs[i] += asks[i].Cost
	}
	return true
}

// depart does a trip. If the one before it failed, it fails like that.
func (v *Reserves) depart(ctx context.Context, t *trip, failed error) {
	first := v.shardOf(t.asks[0].Key)
	name := nameOf(t.asks[0].Limit, t.asks[0].Key)
	first.Lock()
	e := first.keys[name] // is kept while a trip is under way
	if e.next == t {
		e.trip, e.next = t, nil
	}
	first.Unlock()
	defer func() {
		first.Lock()
		e.trip = nil
		first.Unlock()
		close(t.landed)
	}()
	switch {
	case failed != nil:
		t.err = failed
	case v.late(ctx):
		t.err = errLate
	default:
		t.passed, t.err = v.fetch(ctx, t)
	}
}

// A load is what a trip asks for under one key.
type load struct {
	used   lot   // was held here
	beyond int64 // is fetched ahead
	hold   time.Duration
}

// fetch asks the store for what a trip needs beyond what is held, and for a reserve.
func (v *Reserves) fetch(ctx context.Context, t *trip) (bool, error) {
	asked := v.o.Now()
	loads := make([]load, len(t.asks))
	put := make([]limiter.Ask, len(t.asks))
	need := false
	for i := range t.asks {
		loads[i] = v.load(asked, &t.asks[i], t.costs[i], t.alone)
		put[i] = t.asks[i]
		put[i].Limit = &v.termsOf(t.asks[i].Limit).limit
		put[i].Cost = t.costs[i] - loads[i].used.held + loads[i].beyond
		need = need || put[i].Cost > 0
	}
	if !need {
		// What came with the trip before is enough.
		for i := range t.asks {
			t.results[i].Allowed = true
		}
		return true, nil
	}
	err := v.store.Take(ctx, put, t.results)
	passed := err == nil && !refused(put, t.results)
	fresh := false
	for i := range t.asks {
		fresh = v.unload(asked, &t.asks[i], loads[i], &t.results[i], passed, err == nil) || fresh
	}
	switch {
	case fresh && v.closed.Load():
		v.giveBack(ctx, true)
	case fresh:
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
	return passed, err
}

// load takes what is held of a key for a trip, and says how much to fetch ahead.
func (v *Reserves) load(now time.Time, a *limiter.Ask, cost int64, alone bool) load {
	l := load{hold: v.termsOf(a.Limit).hold}
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(now, a, v.most)
	if e == nil {
		return l
	}
	if e.held > 0 && !now.Before(e.until) {
		// It is too late to spend these, and Run has not given them back yet.
		return l
	}
	l.used = e.use(cost)
	if l.used.held < cost && !alone {
		room := a.Limit.Reserve - 1 - e.held - e.coming
		l.beyond = max(min(room, max(e.costs, e.costed), (e.left-cost)/leftShare), 0)
		e.coming += l.beyond
	}
	return l
}

// unload puts down under a key what a trip has brought, or what it was to use if it has failed, and
// reports whether Run does not know that there is something.
func (v *Reserves) unload(asked time.Time, a *limiter.Ask, l load, r *limiter.Result, passed, answered bool) bool {
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.keys[nameOf(a.Limit, a.Key)]
	if e == nil {
		return false
	}
	e.coming -= l.beyond
	if answered {
		e.left, e.resets = r.Remaining, v.o.Now().Add(r.Reset)
	}
	got := l.used
	if passed {
		got = lot{held: l.beyond, until: asked.Add(l.hold), counted: r.Now}
		if end := asked.Add(r.Reset); a.Limit.Algorithm == limiter.FixedWindow && end.Before(got.until) {
			// The store's clock was not behind when it said so.
			got.until = end
		}
	}
	if got.held == 0 {
		return false
	}
	e.add(got)
	known := e.listed
	sh.list(e)
	return !known
}

// arrived tells a request that came along what the store said, with what is held here.
func (v *Reserves) arrived(a *limiter.Ask, told, r *limiter.Result) {
	now := v.o.Now()
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.keys[nameOf(a.Limit, a.Key)]
	if e == nil {
		*r = *told
		r.Max = a.Limit.Max()
		return
	}
	e.note(now, a.Cost, v.termsOf(a.Limit).hold)
	e.answer(now, a, r)
	if told.Now != 0 {
		r.Origin, r.Now = told.Origin, told.Now
	}
}
