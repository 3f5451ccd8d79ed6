package observe

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
)

// Watch returns a layer that measures the store below it: how long decisions take and
// how its calls end. name is the store's in metrics, such as "memory" or "redis".
func Watch(name string) layer.Layer {
	w := watched{
		seconds:     collected.decisions.WithLabelValues(name),
		ok:          collected.storeCalls.WithLabelValues(name, "ok"),
		unavailable: collected.storeCalls.WithLabelValues(name, "unavailable"),
		failed:      collected.storeCalls.WithLabelValues(name, "error"),
	}
	return func(s limiter.Store) limiter.Store {
		w := w
		w.store = s
		return &w
	}
}

type watched struct {
	store                   limiter.Store
	seconds                 prometheus.Observer
	ok, unavailable, failed prometheus.Counter
}

// Take measures how long the store takes.
func (w *watched) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	start := time.Now()
	err := w.store.Take(ctx, asks, results)
	w.seconds.Observe(time.Since(start).Seconds())
	return w.count(err)
}

// Release counts the call.
func (w *watched) Release(ctx context.Context, asks []limiter.Ask) error {
	return w.count(w.store.Release(ctx, asks))
}

// Adjust counts the call.
func (w *watched) Adjust(ctx context.Context, changes []limiter.Change) error {
	return w.count(w.store.Adjust(ctx, changes))
}

// Reset counts the call.
func (w *watched) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	return w.count(w.store.Reset(ctx, l, key))
}

func (w *watched) count(err error) error {
	switch {
	case err == nil:
		w.ok.Inc()
	case errors.Is(err, limiter.ErrUnavailable):
		w.unavailable.Inc()
	default:
		w.failed.Inc()
	}
	return err
}

var _ limiter.Store = (*watched)(nil)
