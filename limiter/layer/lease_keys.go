package layer

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

const (
	reserveShards = 64
	// busyAsks is how many requests before one, within two holds, make a key busy.
	busyAsks = 2
	// evictTries is among how many keys one that is idle is looked for.
	evictTries = 8
	// returnBatch is how many keys something is given back to in one call.
	returnBatch = 64
)

type reserveShard struct {
	sync.Mutex
	keys map[rowName]*reserve
	lent []*reserve // those that may hold something
}

// A reserve is what is held of a key, and what is known of it.
type reserve struct {
	name   rowName
	limit  *limiter.Limit
	listed bool // in lent

	lot          // what may be spent here
	coming int64 // is being fetched ahead

	// What the store said last, and when.
	left   int64
	resets time.Time

	// How many asks there were in this and the last span of a hold, and what they cost.
	since         time.Time
	asks, before  int64
	costs, costed int64

	// The trip that is under way, and the one that gathers.
	trip, next *trip
}

// A lot of events was counted by the store at one moment, and may be spent until another.
type lot struct {
	held    int64
	until   time.Time
	counted limiter.Instant
}

// add puts two lots together. What is in both is held no longer than either, and given back
// as if it was counted with the older: then nothing counts for less time than it should.
func (l *lot) add(o lot) {
	switch {
	case o.held == 0:
		return
	case l.held == 0:
		*l = o
		return
	}
	l.held += o.held
	l.counted = min(l.counted, o.counted)
	if o.until.Before(l.until) {
		l.until = o.until
	}
}

// use takes up to n events out.
func (l *lot) use(n int64) lot {
	used := *l
	used.held = min(l.held, n)
	l.held -= used.held
	return used
}

func (v *Reserves) shardOf(key string) *reserveShard {
	return &v.shards[maphash.String(v.seed, key)%reserveShards]
}

func nameOf(l *limiter.Limit, key string) rowName {
	return rowName{l.Zone, l.Algorithm, l.Index, key}
}

// pay spends what is held of all keys of a request, or of none.
func (v *Reserves) pay(now time.Time, asks []limiter.Ask, results []limiter.Result) bool {
	var paid [mostTogether]lot
	for i := range asks {
		var ok bool
		if paid[i], ok = v.payOne(now, &asks[i], &results[i]); ok {
			continue
		}
		for j := range i {
			v.putBack(&asks[j], paid[j])
		}
		return false
	}
	return true
}

// holds reports whether something is held of any key of a request.
func (v *Reserves) holds(now time.Time, asks []limiter.Ask) bool {
	for i := range asks {
		sh := v.shardOf(asks[i].Key)
		sh.Lock()
		e := sh.keys[nameOf(asks[i].Limit, asks[i].Key)]
		some := e != nil && e.held > 0 && now.Before(e.until)
		sh.Unlock()
		if some {
			return true
		}
	}
	return false
}

func (v *Reserves) payOne(now time.Time, a *limiter.Ask, r *limiter.Result) (lot, bool) {
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.keys[nameOf(a.Limit, a.Key)]
	if e == nil || e.held < a.Cost || !now.Before(e.until) {
		return lot{}, false
	}
	paid := e.use(a.Cost)
	e.note(now, a.Cost, v.termsOf(a.Limit).hold)
	e.answer(now, a, r)
	return paid, true
}

// putBack returns what was paid, as if it had not been.
func (v *Reserves) putBack(a *limiter.Ask, paid lot) {
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	if e := sh.keys[nameOf(a.Limit, a.Key)]; e != nil {
		e.add(paid)
		sh.list(e)
	}
}

// answer tells what a request is told that is paid from here.
func (e *reserve) answer(now time.Time, a *limiter.Ask, r *limiter.Result) {
	most := a.Limit.Max()
	*r = limiter.Result{
		Allowed:   true,
		Origin:    limiter.Cached,
		Max:       most,
		Remaining: min(e.left+e.held, most),
		Reset:     max(e.resets.Sub(now), time.Microsecond),
		Now:       e.counted,
	}
}

// note counts an ask. The shard is locked.
func (e *reserve) note(now time.Time, cost int64, hold time.Duration) {
	switch passed := now.Sub(e.since); {
	case passed >= 2*hold:
		e.since, e.asks, e.before, e.costs, e.costed = now, 0, 0, 0, 0
	case passed >= hold:
		e.since, e.before, e.costed = e.since.Add(hold), e.asks, e.costs
		e.asks, e.costs = 0, 0
	}
	e.asks++
	e.costs += cost
}

// heard notes what the store said of a key that it was asked about by itself, and adds to what is
// left what is held here.
func (v *Reserves) heard(now time.Time, a *limiter.Ask, r *limiter.Result) {
	r.Max = a.Limit.Max()
	hold := v.termsOf(a.Limit).hold
	if hold == 0 {
		return
	}
	sh := v.shardOf(a.Key)
	sh.Lock()
	defer sh.Unlock()
	e := sh.find(now, a, v.most)
	if e == nil {
		return
	}
	if a.Cost > 0 {
		e.note(now, a.Cost, hold)
	}
	e.left, e.resets = r.Remaining, now.Add(r.Reset)
	if now.Before(e.until) {
		r.Remaining = min(r.Remaining+e.held, r.Max)
	}
}

// find returns what is known of a key, and makes room for it if nothing is; nil if there is
// none. The shard is locked.
func (sh *reserveShard) find(now time.Time, a *limiter.Ask, most int) *reserve {
	name := nameOf(a.Limit, a.Key)
	e := sh.keys[name]
	if e == nil {
		if len(sh.keys) >= most && !sh.evict(now) {
			return nil
		}
		e = &reserve{name: name}
		sh.keys[name] = e
	}
	e.limit = a.Limit
	return e
}

// evict forgets a key that is not busy, found by chance.
func (sh *reserveShard) evict(now time.Time) bool {
	tries := 0
	for name, e := range sh.keys {
		if e.held == 0 && e.coming == 0 && e.trip == nil && e.next == nil && !e.listed && now.Sub(e.since) > 2*longestHold {
			delete(sh.keys, name)
			return true
		}
		if tries++; tries == evictTries {
			return false
		}
	}
	return false
}

// list notes that a key may hold something. The shard is locked.
func (sh *reserveShard) list(e *reserve) {
	if !e.listed {
		e.listed = true
		sh.lent = append(sh.lent, e)
	}
}

// drop forgets what is held of a key.
func (v *Reserves) drop(l *limiter.Limit, key string) {
	sh := v.shardOf(key)
	sh.Lock()
	if e := sh.keys[nameOf(l, key)]; e != nil {
		e.held = 0
	}
	sh.Unlock()
}

// Run gives back what is not spent in time, until ctx is done, and then everything; after that nothing
// more is reserved.
func (v *Reserves) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(v.giveBack(ctx, false))
		select {
		case <-ctx.Done():
			timer.Stop()
			v.Close(ctx)
			return
		case <-v.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Close gives everything back, in a second at most, and nothing more is reserved. What a store that is
// away cannot be given leaves its window by itself.
func (v *Reserves) Close(ctx context.Context) {
	v.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	v.giveBack(ctx, true)
}

// giveBack gives back what may not be spent any more, or all there is, and returns how long
// until there may be more. What fails is not repeated, since it may have been done.
func (v *Reserves) giveBack(ctx context.Context, all bool) time.Duration {
	now, next := v.o.Now(), noInterval
	var changes []limiter.Change
	var limits []*limiter.Limit
	send := func() {
		if len(changes) > 0 && v.store.Adjust(ctx, changes) == nil && v.o.Freed != nil {
			for i := range changes {
				v.o.Freed(limits[i], changes[i].Key)
			}
		}
		changes, limits = changes[:0], limits[:0]
	}
	for i := range v.shards {
		sh := &v.shards[i]
		sh.Lock()
		kept := sh.lent[:0]
		for _, e := range sh.lent {
			switch {
			case e.held == 0:
				e.listed = false
			case all || !now.Before(e.until):
				changes = append(changes, limiter.Change{
					Limit: &v.termsOf(e.limit).limit, Key: e.name.key, Delta: -e.held, Spent: e.counted,
				})
				limits = append(limits, e.limit)
				e.held, e.listed = 0, false
			default:
				next = min(next, max(e.until.Sub(now), time.Millisecond))
				kept = append(kept, e)
			}
		}
		clear(sh.lent[len(kept):])
		sh.lent = kept
		sh.Unlock()
		if len(changes) >= returnBatch {
			send()
		}
	}
	send()
	return next
}
