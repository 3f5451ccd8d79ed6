package layer

import (
	"context"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// DefaultDeferredKeys is how many keys [Counts] keep for sending, unless told otherwise.
const DefaultDeferredKeys = 100_000

const (
	countShards = 64
	// noInterval is how long Run waits while nobody has asked of a deferred limit.
	noInterval = time.Hour
)

// Counts are what one process knows of the keys of deferred limits: what was counted here, what of
// that the store has not been told, and what it said that others have counted. They are no
// configuration's, so that a reload loses nothing. They are safe for concurrent use.
//
// What was counted here is kept by a store in memory, in the states that any store keeps: so
// what has left its window is forgotten to the microsecond. Beside it lies a row for each
// key, with what the store is to be told and what it said, until that has left its window
// too. What others counted stays as it was read until it is read again. Rows are bounded: when half of them
// are there, all is sent at once, then idle ones make way, and a new key that finds no
// room is counted in this process alone.
type Counts struct {
	local    limiter.Store
	seed     maphash.Seed
	most     int // rows in a shard
	shards   [countShards]countShard
	shortest atomic.Int64 // of the intervals that were seen
	wake     chan struct{}
	crowded  atomic.Bool

	sending sync.Mutex    // held by the one that sends
	node    string        // names this process in receipts
	receipt atomic.Uint64 // the last one that was written
}

type countShard struct {
	sync.Mutex
	rows map[rowName]*row
	// Room for one call of the local store: what is on the stack would escape.
	result [1]limiter.Result
	ask    [1]limiter.Ask
	change [1]limiter.Change
}

// NewCounts returns counts that are kept in local, a store in memory that nobody else uses, with
// at most maxKeys rows. 0 stands for [DefaultDeferredKeys].
func NewCounts(local limiter.Store, maxKeys int) *Counts {
	if maxKeys <= 0 {
		maxKeys = DefaultDeferredKeys
	}
	c := &Counts{
		local: local,
		seed:  maphash.MakeSeed(),
		most:  max(maxKeys/countShards, 1),
		wake:  make(chan struct{}, 1),
		node:  strconv.FormatUint(rand.Uint64(), 36),
	}
	for i := range c.shards {
		c.shards[i].rows = make(map[rowName]*row)
	}
	return c
}

func (c *Counts) shard(key string) int { return int(maphash.String(c.seed, key) % countShards) }

// row returns a key's row, and makes one if there is none; nil if there is no room. The
// shard is locked.
func (c *Counts) row(sh *countShard, l *limiter.Limit, key string) *row {
	name := rowName{l.Zone, l.Algorithm, l.Index, key}
	r := sh.rows[name]
	if r == nil {
		if len(sh.rows) >= (c.most+1)/2 && !c.crowded.Swap(true) {
			c.nudge()
		}
		if len(sh.rows) >= c.most && !sh.evict() {
			return nil
		}
		r = &row{name: name}
		sh.rows[name] = r
		c.see(l.Deferred)
		r.due = time.Now().Add(l.Deferred - time.Duration(c.shortest.Load()))
	}
	r.limit = l
	return r
}

// see notes an interval. Rows are looked through at the shortest there is.
func (c *Counts) see(interval time.Duration) {
	for {
		known := c.shortest.Load()
		if known != 0 && known <= int64(interval) {
			return
		}
		if c.shortest.CompareAndSwap(known, int64(interval)) {
			c.nudge()
			return
		}
	}
}

func (c *Counts) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Counts) pause() time.Duration {
	if d := c.shortest.Load(); d > 0 {
		return time.Duration(d)
	}
	return noInterval
}

// take decides about asks of deferred limits and takes what they ask for, until they are
// settled or given back.
func (c *Counts) take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	var locked uint64
	for i := range asks {
		locked |= 1 << c.shard(asks[i].Key)
	}
	c.lock(locked)
	defer c.unlock(locked)
	if err := c.local.Take(ctx, asks, results); err != nil {
		return err
	}
	var few [mostTogether]bool
	took := few[:]
	if len(asks) > len(few) {
		took = make([]bool, len(asks))
	}
	now, allowed := time.Now(), !refused(asks, results)
	for i := range asks {
		took[i] = allowed && results[i].Allowed && asks[i].Cost > 0
	}
	for i := range asks {
		c.narrow(now, &asks[i], &results[i], took[i])
	}
	allowed = !refused(asks, results)
	for i := range asks {
		a, r := &asks[i], &results[i]
		sh := &c.shards[c.shard(a.Key)]
		if took[i] && !(allowed && r.Allowed) {
			took[i] = false
			c.undo(ctx, sh, a, r)
		}
		if a.Cost > 0 && r.Allowed && !took[i] {
			continue // another limit refuses
		}
		switch row := c.row(sh, a.Limit, a.Key); {
		case row == nil:
		case took[i]:
			row.inside += a.Cost
		default:
			row.asked = true
		}
	}
	return nil
}

// narrow has a result tell what is left when what others counted is taken off as well. The
// shard is locked.
func (c *Counts) narrow(now time.Time, a *limiter.Ask, r *limiter.Result, took bool) {
	r.Origin = limiter.Cached
	known := c.shards[c.shard(a.Key)].rows[rowName{a.Limit.Zone, a.Limit.Algorithm, a.Limit.Index, a.Key}]
	if known == nil || !known.view.live(now) {
		return
	}
	v := &known.view
	room, claim := r.Remaining-v.others, max(a.Cost, 1)
	if took {
		room += a.Cost
	}
	r.Remaining, r.Reset = v.left(now, r.Remaining), max(r.Reset, v.until.Sub(now))
	if !v.full && room >= claim {
		return
	}
	// Not before it is read again, unless it says that it will be free by itself.
	r.Wait = max(r.Wait, min(max(v.free.Sub(now), a.Limit.Deferred), v.until.Sub(now)))
	if a.Cost > 0 {
		r.Allowed = false
	}
	if took && !v.full {
		r.Remaining = max(room, 0)
	}
}

// undo gives back what an ask took here. The shard is locked.
func (c *Counts) undo(ctx context.Context, sh *countShard, a *limiter.Ask, r *limiter.Result) {
	sh.change[0] = limiter.Change{Limit: a.Limit, Key: a.Key, Delta: -a.Cost, Spent: r.Now}
	_ = c.local.Adjust(ctx, sh.change[:]) // memory does not fail
	if r.Allowed {
		r.Remaining = min(r.Remaining+a.Cost, r.Max)
	}
}

// refused reports whether any ask that is no shadow was refused.
func refused(asks []limiter.Ask, results []limiter.Result) bool {
	for i := range asks {
		if !results[i].Allowed && !asks[i].Limit.Shadow {
			return true
		}
	}
	return false
}

// lock locks the shards of a set in order, so that no two calls wait for each other.
func (c *Counts) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		c.shards[bits.TrailingZeros64(set)].Lock()
	}
}

func (c *Counts) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		c.shards[bits.TrailingZeros64(set)].Unlock()
	}
}

// Settle counts what a request took, once it has been served: results are what the store that
// Around returned answered to its asks. Asks of other limits are passed over, and so is what a dry
// run would have refused. It asks no store, and allocates nothing as a rule.
func (c *Counts) Settle(asks []limiter.Ask, results []limiter.Result) {
	for i := range asks {
		a := &asks[i]
		if a.Limit.Deferred <= 0 || a.Cost <= 0 || !results[i].Allowed {
			continue
		}
		sh := &c.shards[c.shard(a.Key)]
		sh.Lock()
		if r := c.row(sh, a.Limit, a.Key); r != nil {
			r.inside = max(r.inside-a.Cost, 0)
			r.counted += a.Cost
		}
		sh.Unlock()
	}
}

// giveBack undoes what take took.
func (c *Counts) giveBack(ctx context.Context, asks []limiter.Ask, results []limiter.Result) {
	for i := range asks {
		a := &asks[i]
		if a.Cost <= 0 || !results[i].Allowed {
			continue
		}
		sh := &c.shards[c.shard(a.Key)]
		sh.Lock()
		c.undo(ctx, sh, a, &results[i])
		if r := c.row(sh, a.Limit, a.Key); r != nil {
			r.inside = max(r.inside-a.Cost, 0)
		}
		sh.Unlock()
	}
}

// count counts one ask, and reports whether Over is to be told.
func (c *Counts) count(one []limiter.Ask) (limiter.Result, bool) {
	a := &one[0]
	sh := &c.shards[c.shard(a.Key)]
	sh.Lock()
	defer sh.Unlock()
	if err := c.local.Take(context.Background(), one, sh.result[:]); err != nil {
		return limiter.Result{}, false
	}
	res := sh.result[0]
	if !res.Allowed {
		sh.change[0] = limiter.Change{Limit: a.Limit, Key: a.Key, Delta: a.Cost}
		_ = c.local.Adjust(context.Background(), sh.change[:])
	}
	now := time.Now()
	r := c.row(sh, a.Limit, a.Key)
	if r == nil {
		res = sh.look(c.local, a.Limit, a.Key)
		return res, res.Remaining == 0
	}
	r.counted += a.Cost
	left := r.view.left(now, sh.look(c.local, a.Limit, a.Key).Remaining)
	had := left+a.Cost > 0 && r.view.left(now, 1) > 0 && res.Allowed
	if !r.becomes(had, left) {
		return res, false
	}
	return sh.standing(c.local, r, now), true
}

// forget drops all that is known of a key, and what was to be sent.
func (c *Counts) forget(ctx context.Context, l *limiter.Limit, key string) error {
	sh := &c.shards[c.shard(key)]
	sh.Lock()
	defer sh.Unlock()
	if r := sh.rows[rowName{l.Zone, l.Algorithm, l.Index, key}]; r != nil {
		r.counted, r.sent, r.trying, r.over, r.view = 0, 0, 0, false, view{}
	}
	return c.local.Reset(ctx, l, key)
}

// change corrects what was counted under a key here, and what is to be sent of it.
func (c *Counts) change(ctx context.Context, ch *limiter.Change) error {
	sh := &c.shards[c.shard(ch.Key)]
	sh.Lock()
	defer sh.Unlock()
	if r := c.row(sh, ch.Limit, ch.Key); r != nil {
		r.counted += ch.Delta
		if ch.Spent == 0 && ch.Delta < 0 {
			// An operator's grant is of what others counted as well.
			r.view.others, r.view.full = max(r.view.others+ch.Delta, 0), false
		}
	}
	sh.change[0] = *ch
	return c.local.Adjust(ctx, sh.change[:])
}
