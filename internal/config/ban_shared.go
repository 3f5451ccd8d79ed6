package config

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/people"
)

// pooledBans is what bans keep over reloads.
type pooledBans struct {
	held   heldBans
	local  *memstore.Store // counts, as this process knows them
	counts *layer.Counts   // the same, with what Redis has to be told of them
	people *people.Estimator
}

// Destruct implements [caddy.Destructor]. All of it is memory.
func (*pooledBans) Destruct() error { return nil }

// A bansKey names the bans in the pool, by the Redis that they are shared through.
type bansKey struct{ redis redisKey }

// bans takes what the bans of a configuration keep. store is its Redis, nil if it has none.
func (h *holds) bans(a *App, store people.Sharer) (*pooledBans, error) {
	var key bansKey
	if a.Redis != nil {
		key.redis = a.redisKey()
	}
	v, err := h.take(key, func() (caddy.Destructor, error) {
		p := &pooledBans{local: memstore.New(memstore.Options{MaxKeys: a.MaxKeys, Now: Clock})}
		p.counts = layer.NewCounts(p.local, 0)
		p.people = people.New(people.Options{Sharer: store, Told: toldOfPeople, Now: Clock})
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*pooledBans), nil
}

// toldOfPeople logs that people cannot be counted together with other nodes, or can again. It
// outlives configurations.
func toldOfPeople(err error) {
	logger := caddy.Log().Named("weir")
	if err != nil {
		logger.Warn("people behind addresses are counted by this instance alone", zap.Error(err))
		return
	}
	logger.Info("people behind addresses are counted together again")
}

// openBans makes what the bans of a configuration share.
func (s *Shared) openBans() error {
	var sharer people.Sharer
	if s.redis != nil {
		sharer = s.pooled.Store
	}
	pool, err := s.holds.bans(&s.app, sharer)
	if err != nil {
		return err
	}
	s.crowds = crowds{pool.people, prefixBits{s.app.IPv4Prefix, s.app.IPv6Prefix}}
	s.bans = &bans{
		list: s.list, held: &pool.held, crowds: &s.crowds,
		name: s.Name, protected: s.Protected, now: Now, logger: s.logger,
		gated: func() bool { return len(s.Gates()) > 0 },
		began: func(b observe.Begun) {
			s.log.Ban(b)
			s.events.Ban(b)
		},
		wake: make(chan struct{}, 1),
	}
	c := &banCounts{local: pool.local, over: s.bans.over, most: s.app.MaxKeys, logger: s.logger}
	if s.redis != nil {
		c.deferred = layer.NewDeferred(pool.counts, s.pooled.breaker, layer.DeferredOptions{
			Receipts: true, Over: c.told,
		})
	}
	s.bans.counter = c
	return nil
}

// banInterval is how often nodes tell Redis what they counted for bans.
const banInterval = 500 * time.Millisecond

// banCounts keep the counts of bans in this process, and tell Redis of them if there is one.
type banCounts struct {
	local    *memstore.Store
	most     int             // keys that local has room for
	deferred *layer.Deferred // nil if there is no Redis
	over     func(limiter.Ask, limiter.Result)
	logger   *zap.Logger
	crowded  atomic.Bool // whether it was logged that there is no room
}

// Count counts asks. It waits for nothing.
func (c *banCounts) Count(asks []limiter.Ask) {
	if c.deferred != nil {
		c.deferred.Count(asks)
		return
	}
	for i := range asks {
		var r [1]limiter.Result
		if err := c.local.Take(context.Background(), asks[i:i+1], r[:]); err == nil && r[0].Remaining == 0 {
			c.told(asks[i], r[0])
		}
	}
}

// told hears that a key has nothing left. In a full table new keys share one budget: when it comes
// near to that nobody is banned any more, for it may be for what another did.
func (c *banCounts) told(a limiter.Ask, r limiter.Result) {
	if c.local.Len() < c.most-c.most/4 {
		c.over(a, r)
		return
	}
	if c.crowded.CompareAndSwap(false, true) {
		c.logger.Warn("too many keys are counted for bans: nobody new is banned until some are forgotten", zap.Int("max_keys", c.most))
	}
}

// Reset forgets what is counted of a key, here even if Redis cannot.
func (c *banCounts) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	if c.deferred != nil {
		return c.deferred.Reset(ctx, l, key)
	}
	return c.local.Reset(ctx, l, key)
}

// Run lets go of what is over, and tells Redis of the rest, until ctx is done.
func (c *banCounts) Run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.deferred != nil {
			c.deferred.Run(ctx)
		}
	}()
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			<-done
			return
		case <-tick.C:
			c.local.Sweep(c.most/sweepParts + 1)
			if c.local.Len() < c.most/2 {
				c.crowded.Store(false)
			}
		}
	}
}
