package layer

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Defaults of [DenyCacheOptions].
const (
	DefaultDenyCacheSize     = 1 << 19
	DefaultDenyCacheCap      = 5 * time.Second
	DefaultDenyCacheHeardCap = time.Minute
)

// DenyCacheOptions says how much a [DenyCache] keeps and for how long, and whom it tells. All
// of it may be left out.
type DenyCacheOptions struct {
	// Size is how many answers are kept at most, rounded up to a power of two; default
	// [DefaultDenyCacheSize]. There is room of 96 bytes for each, up to three times as many as
	// are kept, and none at first.
	Size int
	// Cap is after how long the store is asked about a refused key again although the
	// refusal is not over; default [DefaultDenyCacheCap].
	Cap time.Duration
	// HeardCap takes the place of Cap for what only an operator can shorten, as long as it is known
	// that operators are heard, see [DenyCache.Heard]; default [DefaultDenyCacheHeardCap].
	HeardCap time.Duration
	// Apart is set if the store may decide the asks of one request one after the other, and take back what
	// it charged if a later one refuses, as a cluster does: a refusal that came between may be for nothing.
	Apart bool
	// Name returns the name that all processes know a state by, see [DenyCache.ForgetName].
	Name func(l *limiter.Limit, key string) string
	// Tell tells the caches of other processes to forget a state that an operator has
	// given something back to, or reset.
	Tell func(ctx context.Context, l *limiter.Limit, key string)
	// Hit is called for each request that is answered from memory.
	Hit func()
	// Now replaces the clock, which never steps, in tests.
	Now func() time.Time
}

// A DenyCache remembers what a store refused, and refuses it again without asking: a flood
// of refused requests makes no call. It is safe for concurrent use, and may stand around
// several stores that share what they count.
//
// A request is answered from memory if one of its limits that may refuse is known to refuse
// its key. The wait that a store tells is the least there can be: whatever others
// spend meanwhile only lengthens it. Counted from before the store was asked, by a clock that never
// steps, a refusal from memory ends no later than it would in the store. It holds for the cost that was refused, under the
// same numbers of the limit. A larger cost is refused as well, but has a longer wait, which
// only the store knows: it is asked, save about a state of which several costs are
// remembered already, where the wait told is that of the largest below.
//
// What else was answered to a refused request is remembered with it, so that clients are told
// the same numbers, grown older, and shadows say what they said. For a limit of which nothing is
// known, having been asked about another key, one request in 100 ms is let through to ask the
// store; the others are told the least that it can have left.
//
// Not remembered are: refusals that the store itself did not make; those of in_flight, whose
// places come back at any moment; all requests that meet a limit with a Ceiling, since
// their refusals have to be counted; and what is asked at no cost.
//
// Reset and Adjust make the cache forget the state before they return. Other processes are told of what
// operators do: a Reset, and give-backs that name no step in particular. They are not told of the corrections that follow
// requests, of which there may be as many as requests, nor of what is given back of a reserve; nor do they hear if
// messages are lost, or the store forgets what it held, or its clock steps forward. All this is bounded by a cap: after
// it one request in 100 ms is let through to ask the store, while the others stay refused, and if
// the store does not refuse it, the state is forgotten. So a refused key costs the store one call
// in each cap.
//
// The cap is Cap; but it is HeardCap for limits that nothing corrects, as long as whoever listens to other processes
// has said by Heard, within the last Cap, that nothing was missed. If it falls silent, for whatever reason, Cap
// after its last word holds: a reset that is not heard is thus known no later than if there were no other cap.
//
// Keys are known by a keyed hash of 64 bits. Memory grows with what is remembered up to a bound, and Sweep gives it
// back. In a full cache an answer gives way that can be used for the shortest time, among a few that are chosen by chance.
type DenyCache struct {
	o      DenyCacheOptions
	seed   maphash.Seed
	start  time.Time
	shards []shard
	most   int // sets of a shard
	swept  atomic.Uint64
	// forgot is when all shards were last made to forget something: nothing that the store
	// was asked before is learned any more.
	forgot atomic.Int64
	// heard is when it was last known that nothing which others told was missed.
	heard atomic.Int64
}

// NewDenyCache returns an empty cache.
func NewDenyCache(o DenyCacheOptions) *DenyCache {
	o.Size = cmp.Or(o.Size, DefaultDenyCacheSize)
	o.Cap = cmp.Or(o.Cap, DefaultDenyCacheCap)
	o.HeardCap = max(o.Cap, cmp.Or(o.HeardCap, DefaultDenyCacheHeardCap))
	start := time.Now()
	if o.Now != nil {
		start = o.Now()
	}
	shards, most := 1, 1
	for shards*most*ways < o.Size {
		if most < mostSets {
			most *= 2
		} else {
			shards *= 2
		}
	}
	c := &DenyCache{o: o, seed: maphash.MakeSeed(), start: start, shards: make([]shard, shards), most: most}
	c.heard.Store(math.MinInt64 / 2) // never
	return c
}

// Around puts the cache around a store. It is a [Layer].
func (c *DenyCache) Around(s limiter.Store) limiter.Store { return &denyCache{c, s} }

// Forget forgets a state: its key may have been given something back.
func (c *DenyCache) Forget(l *limiter.Limit, key string) {
	id := c.id(l, key)
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgot = c.now()
	at := s.set(id)
	if at == nil {
		return
	}
	for i := range at.ids {
		if at.ids[i] == id {
			at.ids[i] = 0
		}
	}
}

// ForgetName forgets the state of that name, see [DenyCacheOptions].Name. It looks through all
// of the cache.
func (c *DenyCache) ForgetName(name string) {
	tag := c.tag(name)
	c.forgetAll(func(s *shard) {
		for i := range s.sets {
			for j := range s.sets[i].names {
				if s.sets[i].names[j] == tag {
					s.sets[i].ids[j] = 0
				}
			}
		}
	})
}

// Clear forgets everything: what others told may have been missed, or the store may have lost what it held.
func (c *DenyCache) Clear() {
	c.forgetAll(func(s *shard) { s.sets = nil })
}

// forgetAll has every shard forget something.
func (c *DenyCache) forgetAll(forget func(s *shard)) {
	c.forgot.Store(c.now())
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		forget(s)
		s.mu.Unlock()
	}
}

// Heard says that whatever other processes have told up to now was passed on to ForgetName. Whoever
// listens to them says so again and again, several times in each Cap; and calls Clear first when it has begun to listen.
func (c *DenyCache) Heard() { c.heard.Store(c.now()) }

// now returns the nanoseconds since just before the cache was made, so that it is above 0.
func (c *DenyCache) now() int64 {
	if c.o.Now != nil {
		return int64(c.o.Now().Sub(c.start)) + 1
	}
	return int64(time.Since(c.start)) + 1
}

// denyCache is a DenyCache around one store.
type denyCache struct {
	*DenyCache

	store limiter.Store
}

// Take answers from memory what is known to be refused, and asks the store for the rest.
func (d *denyCache) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	started := d.now()
	known, doubted := d.recall(started, asks, results)
	if known {
		if d.o.Hit != nil {
			d.o.Hit()
		}
		return nil
	}
	err := d.store.Take(ctx, asks, results)
	switch {
	case err == nil && exactlyRefused(asks, results):
		d.learn(started, asks, results)
	case doubted:
		for i := range asks {
			d.Forget(asks[i].Limit, asks[i].Key)
		}
	}
	return err
}

// exactlyRefused reports whether the store itself refused a request.
func exactlyRefused(asks []limiter.Ask, results []limiter.Result) bool {
	for i := range asks {
		if decides(&asks[i]) && !results[i].Allowed && results[i].Origin == limiter.Exactly {
			return true
		}
	}
	return false
}

// decides reports whether an ask's refusal refuses the request, and may be remembered.
func decides(a *limiter.Ask) bool { return !a.Limit.Shadow && memorable(a) && a.Cost > 0 }

// memorable reports whether what an ask was answered holds for a while.
func memorable(a *limiter.Ask) bool { return a.Limit.Algorithm != limiter.InFlight }

// Release passes the call on.
func (d *denyCache) Release(ctx context.Context, asks []limiter.Ask) error {
	return d.store.Release(ctx, asks)
}

// Adjust passes the changes on, and forgets the states that they are about: also those that were
// charged, since to count under other numbers may shorten a wait. It does so even after an
// error: the change may have been made.
func (d *denyCache) Adjust(ctx context.Context, changes []limiter.Change) error {
	err := d.store.Adjust(ctx, changes)
	for i := range changes {
		c := &changes[i]
		d.changed(ctx, c.Limit, c.Key, err == nil && c.Spent == 0 && c.Delta < 0)
	}
	return err
}

// Reset passes the call on, and forgets the state.
func (d *denyCache) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	err := d.store.Reset(ctx, l, key)
	d.changed(ctx, l, key, err == nil)
	return err
}

func (d *denyCache) changed(ctx context.Context, l *limiter.Limit, key string, tell bool) {
	d.Forget(l, key)
	if tell && d.o.Tell != nil {
		d.o.Tell(ctx, l, key)
	}
}

var _ limiter.Store = (*denyCache)(nil)
