package observe

import (
	"context"
	"errors"
	"sync"
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

// began is what time is counted from: to read the monotonic clock alone takes half as long as to
// read the wall's as well.
var began = time.Now()

type watched struct {
	store                   limiter.Store
	seconds                 prometheus.Observer
	ok, unavailable, failed prometheus.Counter
}

// Take measures how long the store takes.
func (w *watched) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	start := time.Since(began)
	err := w.store.Take(ctx, asks, results)
	w.seconds.Observe((time.Since(began) - start).Seconds())
	return w.count(err)
}

// Release counts the call.
func (w *watched) Release(ctx context.Context, asks []limiter.Ask) error {
	return w.count(w.store.Release(ctx, asks))
}

// Renew implements [limiter.Renewer] if the store does, and counts the call.
func (w *watched) Renew(ctx context.Context, asks []limiter.Ask) error {
	renewer, ok := w.store.(limiter.Renewer)
	if !ok {
		return errors.ErrUnsupported
	}
	return w.count(renewer.Renew(ctx, asks))
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

var (
	_ limiter.Store   = (*watched)(nil)
	_ limiter.Renewer = (*watched)(nil)
)

// CountCached returns a function that counts requests which were refused by what is
// remembered of a store.
func CountCached(name string) func() { return collected.cached.WithLabelValues(name).Inc }

// breakers holds how many breakers are in each state, by the name of their stores.
var breakers = struct {
	mu     sync.Mutex
	states map[string]*[layer.Open + 1]int
}{states: make(map[string]*[layer.Open + 1]int)}

// WatchBreaker returns a function that takes the states of a breaker before a store of that
// name, which is closed at first. Of several breakers the metric shows the one that is worst off,
// as during a reload that brings other servers.
func WatchBreaker(name string) func(layer.BreakerState) {
	gauge := collected.breakers.WithLabelValues(name)
	breakers.mu.Lock()
	defer breakers.mu.Unlock()
	all := breakers.states[name]
	if all == nil {
		all = new([layer.Open + 1]int)
		breakers.states[name] = all
	}
	was := layer.Closed
	return func(s layer.BreakerState) {
		breakers.mu.Lock()
		defer breakers.mu.Unlock()
		all[was]--
		all[s]++
		was = s
		worst := layer.Open
		for worst > layer.Closed && all[worst] <= 0 {
			worst--
		}
		gauge.Set(float64(worst))
	}
}
