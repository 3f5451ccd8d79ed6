package peer

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmemory "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// GoLimiter is github.com/sethvargo/go-limiter in memory: a bucket that is refilled in whole
// intervals.
func GoLimiter(s Setup) (Limiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(s.Events), Interval: s.Window})
	if err != nil {
		return Limiter{}, err
	}
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok, err
		},
		Close: func() error { return store.Close(context.Background()) },
	}, nil
}

// ThrottledMemory is github.com/throttled/throttled in memory, without a bound, which is its
// faster store: GCRA.
func ThrottledMemory(s Setup) (Limiter, error) {
	store, err := throttledmemory.NewCtx(0)
	if err != nil {
		return Limiter{}, err
	}
	return throttledBy(store, s, nil)
}

func throttledBy(store throttled.GCRAStoreCtx, s Setup, closing func() error) (Limiter, error) {
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(int(s.Events), s.Window),
		MaxBurst: int(s.Events) - 1, // beyond the first
	})
	if err != nil {
		return Limiter{}, err
	}
	// It gives up on a key that many ask for at once after ten tries; the contention is part
	// of what is measured.
	l.SetMaxCASAttemptsLimit(1_000_000)
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return !limited, err
		},
		Close: closing,
	}, nil
}

// UluleMemory is github.com/ulule/limiter in memory: a fixed window.
func UluleMemory(s Setup) (Limiter, error) {
	return ululeBy(ululememory.NewStore(), s, nil), nil
}

func ululeBy(store ulule.Store, s Setup, closing func() error) Limiter {
	l := ulule.New(store, ulule.Rate{Limit: s.Events, Period: s.Window})
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			c, err := l.Get(ctx, key)
			return !c.Reached, err
		},
		Close: closing,
	}
}

// HTTPRate is github.com/go-chi/httprate in memory: two weighted windows. It is asked without
// the header fields that it could write.
func HTTPRate(s Setup) (Limiter, error) {
	l := httprate.NewRateLimiter(int(s.Events), s.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			return !l.OnLimit(nil, request.WithContext(ctx), key), nil
		},
	}, nil
}

// request carries a context, which is all that is looked at.
var request = new(http.Request)

// XTime is golang.org/x/time/rate, a token bucket, with a map of limiters by key under one lock:
// what most people write.
func XTime(s Setup) (Limiter, error) {
	var mu sync.Mutex
	byKey := make(map[string]*rate.Limiter)
	each := rate.Limit(float64(s.Events) / s.Window.Seconds())
	return Limiter{
		Allow: func(_ context.Context, key string) (bool, error) {
			mu.Lock()
			l := byKey[key]
			if l == nil {
				l = rate.NewLimiter(each, int(s.Events))
				byKey[key] = l
			}
			mu.Unlock()
			return l.AllowN(time.Now(), 1), nil
		},
	}, nil
}
