// Package memstore keeps counts in the process's memory.
//
// A [Store] is a table of states in shards, each under its own lock. It holds no keys, only
// their keyed hashes, and never more of them than it was told: a new key takes the place of
// one whose counts have run out, and if there is none, all new keys of a limit and
// shard share one budget. So nobody's counts are ever forgotten early, and a
// flood of invented keys neither fills the memory nor frees a client that is at its limit.
package memstore

import (
	"context"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// DefaultMaxKeys is how many keys a store holds unless told otherwise.
const DefaultMaxKeys = 1_000_000

// Options say how a store is made. The zero value is good.
type Options struct {
	// MaxKeys bounds the keys that are held, counting a key once for each of its
	// limits. Default: DefaultMaxKeys.
	MaxKeys int
	// Now is the clock. Default: the time at which the store was made, and the
	// monotonic time passed since, so that no step of the wall clock counts.
	Now func() time.Time
}

// A Store is a [limiter.Store] in memory. It starts no goroutine: expired keys make way when
// new ones come, and whoever owns the store may call Sweep to free them before.
type Store struct {
	seed   maphash.Seed
	given  func() time.Time // the clock, nil for the time since start
	start  time.Time
	shards []shard // a power of two, at most maxShards
	mask   uint64
	limits knownLimits
	zones  zones
	sweep  sweeper
}

const maxShards = 256

// keysPerShard is how many keys are worth a lock of their own.
const keysPerShard = 1024

// New returns an empty store.
func New(o Options) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	count := 1
	for count < maxShards && count*keysPerShard < o.MaxKeys {
		count *= 2
	}
	s := &Store{
		seed:   maphash.MakeSeed(),
		given:  o.Now,
		start:  time.Now(),
		shards: make([]shard, count),
		mask:   uint64(count - 1),
	}
	s.SetMaxKeys(o.MaxKeys)
	return s
}

// SetMaxKeys changes the bound. A lower one drops nothing that still counts: new keys find
// no room until enough have expired. The number of locks stays what it was made for.
func (s *Store) SetMaxKeys(n int) {
	each := max((n+len(s.shards)-1)/len(s.shards), 1)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.Lock()
		sh.most = each
		sh.Unlock()
	}
}

// now reads the clock. Without one that was given it is steady: it shows start at start and never steps.
func (s *Store) now() limiter.Instant {
	if s.given != nil {
		return limiter.At(s.given())
	}
	return limiter.At(s.start).Add(time.Since(s.start))
}

// place says where the state of an ask lies.
type place struct {
	alg   algorithm.Algorithm
	shard *shard
	limit uint64 // names the limit
	id    uint64 // names the state
	at    uint32 // the entry, 0 if there is none
}

// fewAsks is how many asks of a call need no memory of their own.
const fewAsks = 8

// Take answers all asks in one step. See [limiter.Store].
func (s *Store) Take(_ context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if len(asks) == 1 {
		return s.takeOne(&asks[0], &results[0])
	}
	var few [fewAsks]place
	places := few[:]
	if len(asks) > fewAsks {
		places = make([]place, len(asks))
	}
	places = places[:len(asks)]
	var locks shardSet
	for i := range asks {
		n, err := s.locate(&places[i], asks[i].Limit, asks[i].Key)
		if err != nil {
			return err
		}
		locks.add(n)
	}
	now := s.lock(&locks)
	defer s.unlock(&locks, now)
	allowed := true
	for i := range asks {
		a, p := &asks[i], &places[i]
		s.reserve(p, a, now)
		results[i] = algorithm.Peek(p.alg, now, p.state(), a)
		if !results[i].Allowed && !a.Limit.Shadow {
			allowed = false
		}
	}
	for i := range asks {
		settle(&places[i], &asks[i], &results[i], now, allowed)
	}
	return nil
}

// takeOne is Take of an ask that is asked alone: its state is read but once.
func (s *Store) takeOne(a *limiter.Ask, r *limiter.Result) error {
	var p place
	if _, err := s.locate(&p, a.Limit, a.Key); err != nil {
		return err
	}
	sh := p.shard
	now := s.enter(sh)
	defer sh.Unlock()
	s.reserve(&p, a, now)
	if p.at == 0 {
		*r = algorithm.Peek(p.alg, now, nil, a)
		return nil
	}
	e := sh.entries.at(p.at)
	state, changed := algorithm.Take(r, p.alg, now, sh.state(e), a)
	p.keep(e, state, changed, now.Add(r.Reset))
	return nil
}

// settle does to a state what became of its ask.
func settle(p *place, a *limiter.Ask, r *limiter.Result, now limiter.Instant, allowed bool) {
	if p.at == 0 {
		return
	}
	e := p.shard.entries.at(p.at)
	state, changed := p.shard.state(e), false
	switch {
	case !r.Allowed:
		state, *r, changed = algorithm.Refuse(p.alg, now, state, a, *r)
	case allowed && a.Cost > 0:
		state, *r = algorithm.Spend(p.alg, now, state, a)
		changed = true
	}
	p.keep(e, state, changed, now.Add(r.Reset))
}

// keep saves a state that changed, and removes an entry that holds none.
func (p *place) keep(e *entry, state []byte, changed bool, until limiter.Instant) {
	if changed {
		p.shard.save(e, state, until)
	}
	if len(state) == 0 {
		p.shard.remove(p.at)
	}
}

// state returns the state, an empty one if there is no entry.
func (p *place) state() []byte {
	if p.at == 0 {
		return nil
	}
	return p.shard.state(p.shard.entries.at(p.at))
}

// locate fills a place, all but the entry, and returns its shard's number.
func (s *Store) locate(p *place, l *limiter.Limit, key string) (int, error) {
	if err := s.know(p, l); err != nil {
		return 0, err
	}
	// The shard depends on the key alone, so that all limits of a key share a lock.
	k := maphash.String(s.seed, key)
	p.id = mix(k, p.limit)
	p.at = 0
	n := k & s.mask
	p.shard = &s.shards[n]
	return int(n), nil
}

// overflow names the state that new keys share when the shard is full.
func (p *place) overflow() uint64 { return mix(^uint64(0), p.limit) }

// mix makes one hash of two.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return hi ^ lo
}

// reserve finds the entry of an ask, or makes one if the ask may charge it. In a full shard
// it is the one that new keys share.
func (s *Store) reserve(p *place, a *limiter.Ask, now limiter.Instant) {
	sh := p.shard
	p.at = sh.find(p.id)
	if p.at == 0 && !sh.hasRoom(now) {
		p.id = p.overflow()
		p.at = sh.find(p.id)
	}
	switch {
	case p.at != 0:
		sh.hold(sh.entries.at(p.at), now)
	case a.Cost > 0:
		p.at = sh.insert(p.id, s.zones.number(a.Limit.Zone), now)
	}
}

// shardSet holds numbers of shards.
type shardSet [maxShards / 64]uint64

func (set *shardSet) add(n int) { set[n/64] |= 1 << (n % 64) }

// enter locks a shard for a step, and dates the step. The clock is read before, so that nobody waits
// for the lock meanwhile, but no step is dated before an earlier one: that one's time had passed when this one
// got the lock, and is as true for it. Only a clock that was given may step back.
func (s *Store) enter(sh *shard) limiter.Instant {
	now := s.now()
	sh.Lock()
	if s.given == nil {
		now = max(now, sh.last)
		sh.last = now
	}
	return now
}

// lock enters the shards of a set in the order of their numbers, so that no two calls wait for
// each other.
func (s *Store) lock(set *shardSet) limiter.Instant {
	now := s.now()
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			sh := &s.shards[w*64+bits.TrailingZeros64(word)]
			sh.Lock()
			now = max(now, sh.last)
		}
	}
	return now
}

// unlock leaves them after a step of that time.
func (s *Store) unlock(set *shardSet, now limiter.Instant) {
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			sh := &s.shards[w*64+bits.TrailingZeros64(word)]
			if s.given == nil {
				sh.last = now
			}
			sh.Unlock()
		}
	}
}

var _ limiter.Store = (*Store)(nil)
