package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// WeirMemory returns this module's memory store, counting by the named algorithm.
func WeirMemory(algorithm string) Open {
	return func(s Setup) (Limiter, error) {
		return weir(memstore.New(memstore.Options{}), s, algorithm, nil), nil
	}
}

// WeirRedis returns this module's Redis store with the layers that a Caddy puts around it,
// counting by the named algorithm. The key that Redis sees is hashed, as by default. It waits for
// an answer as long as go-redis does by default, like its peers, so that a busy machine makes
// nobody decide without Redis.
func WeirRedis(algorithm string) Open {
	return func(s Setup) (Limiter, error) {
		store, err := redisstore.New(redisstore.Options{Addresses: []string{s.Redis}, Timeout: timeout})
		if err != nil {
			return Limiter{}, err
		}
		layers, closing := stack(store)
		return weir(layers, s, algorithm, closing), nil
	}
}

const timeout = 5 * time.Second

// stack puts the layers around a store that a Caddy does, see internal/config: from the innermost,
// a breaker, a stand-in for outages, and a memory of refusals.
func stack(store *redisstore.Store) (limiter.Store, func() error) {
	breaker := layer.NewBreaker(store, layer.BreakerOptions{Lane: store.Node, Outage: redisstore.Outage})
	refusals := layer.NewDenyCache(layer.DenyCacheOptions{Name: store.Name})
	standIn := layer.Fallback(memstore.New(memstore.Options{}))
	ctx, stop := context.WithCancel(context.Background())
	go store.ListenFreed(ctx, refusals)
	return refusals.Around(standIn(breaker)), func() error {
		stop()
		breaker.Close()
		return store.Close()
	}
}

// A step is the room for one decision, which is used again, as the handler has it.
type step struct {
	asks    [1]limiter.Ask
	results [1]limiter.Result
	limiter.Decision
}

func weir(store limiter.Store, s Setup, algorithm string, closing func() error) Limiter {
	limit := &limiter.Limit{Zone: "bench", Algorithm: algorithm, Events: s.Events, Window: s.Window}
	steps := sync.Pool{New: func() any { return new(step) }}
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			st := steps.Get().(*step)
			defer steps.Put(st)
			a := &st.asks[0]
			a.Limit, a.Key, a.Cost = limit, key, 1
			err := st.Take(ctx, store, st.asks[:], st.results[:])
			if err == nil && st.results[0].Origin == limiter.Local {
				err = errStandIn
			}
			return st.Allowed, err
		},
		Close: closing,
	}
}

// errStandIn says that a decision is not worth measuring.
var errStandIn = errors.New("the stand-in decided, not Redis")
