package layer

import (
	"context"
	"slices"

	"github.com/weirhq/caddy-weir/limiter"
)

// A witness is a store that can tell of limits beside one that it does not know, which has refused
// the request already.
type witness interface {
	// beside fills results with how asks stand that are not to be charged, as if they only
	// looked. The answers may be some seconds old.
	beside(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error
}

// beside has a witness tell of asks, or else the store.
func beside(ctx context.Context, s limiter.Store, asks []limiter.Ask, results []limiter.Result) error {
	if w, ok := s.(witness); ok {
		return w.beside(ctx, asks, results)
	}
	return look(ctx, s, asks, results)
}

// look asks a store how asks stand. It cannot tell more than whether a cost of 1 would pass.
func look(ctx context.Context, s limiter.Store, asks []limiter.Ask, results []limiter.Result) error {
	looks := slices.Clone(asks)
	for i := range looks {
		looks[i].Cost = 0
	}
	err := s.Take(ctx, looks, results)
	for i := range results {
		results[i].Allowed = results[i].Wait == 0
	}
	return err
}

// beside answers from memory if it knows of each ask what the store said in the last Cap, and has the
// store say it else: so a flood of requests that are refused elsewhere makes one call in each Cap.
func (d *denyCache) beside(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	now := d.now()
	for i := range asks {
		a := &asks[i]
		refused, ok, doubted := d.refusal(now, a)
		if ok {
			results[i] = refused.tell(now, a)
			continue
		}
		if results[i], ok = d.companion(now, a); ok && !doubted {
			continue
		}
		err := look(ctx, d.store, asks, results)
		if err == nil {
			if doubted && results[i].Allowed {
				d.Forget(a.Limit, a.Key)
			}
			d.learn(now, asks, results)
		}
		return err
	}
	return nil
}

var _ witness = (*denyCache)(nil)
