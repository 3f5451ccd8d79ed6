package config

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// newPooledRedis puts around a store what all configurations that use it have to share, so
// that what is known of it outlives a reload.
func newPooledRedis(s *redisstore.Store) pooledRedis {
	users := new(storeUsers)
	refusals := layer.NewDenyCache(layer.DenyCacheOptions{
		Name: s.Name,
		Tell: func(ctx context.Context, l *limiter.Limit, key string) {
			// Who does not hear of it learns it when the cap has passed.
			_ = s.TellFreed(ctx, l, key)
		},
		Hit:   observe.CountCached("redis"),
		Apart: s.Apart(),
	})
	breaker := layer.NewBreaker(observe.Watch("redis")(s), layer.BreakerOptions{
		Lane:   s.Node,
		Outage: redisstore.Outage,
		Down:   func(err error) { users.tell(func(s *Shared) { s.storeDown(err) }) },
		Up: func(outage time.Duration) {
			refusals.Clear() // a server may have come back without what it held
			users.tell(func(s *Shared) { s.storeUp(outage) })
		},
		Odd:   func(err error) { users.tell(func(s *Shared) { s.log.StoreFailed(err) }) },
		State: observe.WatchBreaker("redis"),
	})
	return pooledRedis{
		Store: s, leases: newLessor(breaker, false), inspected: new(atomic.Bool), users: users, breaker: breaker, refusals: refusals,
	}
}

// storeUsers are the configurations that use a store. What becomes of the store is told to
// the newest, so that the log has one line about it also while a reload goes on.
type storeUsers struct {
	mu  sync.Mutex
	all []*Shared
}

func (u *storeUsers) join(s *Shared) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, s)
}

func (u *storeUsers) leave(s *Shared) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(one *Shared) bool { return one == s })
}

func (u *storeUsers) tell(do func(s *Shared)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.all); n > 0 {
		do(u.all[n-1])
	}
}

func (s *Shared) storeDown(err error) {
	s.log.StoreDown(err)
	s.events.StoreDown(err)
}

func (s *Shared) storeUp(outage time.Duration) {
	s.log.StoreUp(outage)
	s.events.StoreUp(outage)
}
