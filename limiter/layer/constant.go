package layer

import (
	"context"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// AllowAll is a store that counts nothing and allows every ask with its whole quota
// left: the second store of a [Fallback] for those who would rather let everything
// pass than refuse wrongly.
type AllowAll struct{}

// DenyAll is a store that counts nothing and refuses every ask with a cost: the second
// store of a [Fallback] for those who would rather refuse than let too much pass.
type DenyAll struct{}

// denyWait is how long a client that DenyAll refuses is told to wait: an outage may
// end at any moment.
const denyWait = time.Second

// Take allows all asks.
func (AllowAll) Take(_ context.Context, asks []limiter.Ask, results []limiter.Result) error {
	now := limiter.At(time.Now())
	for i := range asks {
		most := asks[i].Limit.Max()
		results[i] = limiter.Result{Allowed: true, Origin: limiter.Local, Max: most, Remaining: most, Now: now}
	}
	return nil
}

// Release does nothing.
func (AllowAll) Release(context.Context, []limiter.Ask) error { return nil }

// Adjust does nothing.
func (AllowAll) Adjust(context.Context, []limiter.Change) error { return nil }

// Reset does nothing.
func (AllowAll) Reset(context.Context, *limiter.Limit, string) error { return nil }

// Take refuses all asks but those that only look.
func (DenyAll) Take(_ context.Context, asks []limiter.Ask, results []limiter.Result) error {
	now := limiter.At(time.Now())
	for i := range asks {
		results[i] = limiter.Result{
			Allowed: asks[i].Cost == 0,
			Origin:  limiter.Local,
			Max:     asks[i].Limit.Max(),
			Reset:   denyWait,
			Wait:    denyWait,
			Now:     now,
		}
	}
	return nil
}

// Release does nothing.
func (DenyAll) Release(context.Context, []limiter.Ask) error { return nil }

// Adjust does nothing.
func (DenyAll) Adjust(context.Context, []limiter.Change) error { return nil }

// Reset does nothing.
func (DenyAll) Reset(context.Context, *limiter.Limit, string) error { return nil }

var (
	_ limiter.Store = AllowAll{}
	_ limiter.Store = DenyAll{}
)
