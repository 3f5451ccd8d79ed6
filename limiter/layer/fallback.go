// Package layer holds stores that stand around another store and add one thing to it.
package layer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Layer puts a store around another one.
type Layer func(limiter.Store) limiter.Store

// Fallback returns a layer that lets second decide whatever the store below cannot:
// every Take that fails with [limiter.ErrUnavailable]. Its results then say
// [limiter.Local]. Other errors are passed on. Each call asks the store below first;
// that a store known to be down is skipped is another layer's work.
//
// told is called with true and the error when the store below begins to fail, and
// with false and nil when it is back; calls come one at a time and alternate. Being
// back means that a call succeeded during which no other failed, and that none has
// failed for a second: one answer that was under way when an outage began does not
// end it, and a store that answers now and then is told of once. told must return
// soon and must not call the store; nil is allowed.
//
// The other methods:
//   - Release goes to the store below and, once that has failed, to both, since a lease
//     may be held in either. A lease in a store that is down ends by itself.
//   - Adjust goes to the store below, or to second while that fails. Which store counted
//     the step that is corrected is not known: around an outage a change may correct the
//     other one, which is then wrong by this change until its window has passed.
//   - Reset goes to both, so that a key does not stay refused by the one that was
//     forgotten; the error of the store below is returned, for somebody waits for the
//     key to be free.
func Fallback(second limiter.Store, told func(down bool, err error)) Layer {
	return fallbackBy(time.Now, second, told)
}

// calm is how long a store must not have failed to be called back.
const calm = time.Second

// fallbackBy is Fallback by another clock.
func fallbackBy(now func() time.Time, second limiter.Store, told func(down bool, err error)) Layer {
	if told == nil {
		told = func(bool, error) {}
	}
	return func(first limiter.Store) limiter.Store {
		return &fallback{first: first, second: second, now: now, told: told}
	}
}

type fallback struct {
	first, second limiter.Store

	now      func() time.Time
	failures atomic.Uint64 // of first, since the beginning
	failedAt atomic.Int64  // when the last one was, in nanoseconds
	down     atomic.Bool   // written with mu held
	mu       sync.Mutex    // held while told runs, so that reports keep their order
	told     func(down bool, err error)
}

// Take asks the first store, then the second.
func (f *fallback) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	before := f.failures.Load()
	err := f.first.Take(ctx, asks, results)
	if !f.failed(before, err) {
		return err
	}
	// The first store may have used up all the time there was; the second is at hand
	// and does not wait.
	if err := f.second.Take(context.WithoutCancel(ctx), asks, results); err != nil {
		return err
	}
	for i := range results {
		results[i].Origin = limiter.Local
	}
	return nil
}

// Release gives leases back wherever they may be held.
func (f *fallback) Release(ctx context.Context, asks []limiter.Ask) error {
	before := f.failures.Load()
	err := f.first.Release(ctx, asks)
	if f.failed(before, err) {
		err = nil
	}
	if f.failures.Load() == 0 {
		return err
	}
	return errors.Join(err, f.second.Release(context.WithoutCancel(ctx), asks))
}

// Adjust applies changes to the store that decides at the moment.
func (f *fallback) Adjust(ctx context.Context, changes []limiter.Change) error {
	before := f.failures.Load()
	err := f.first.Adjust(ctx, changes)
	if !f.failed(before, err) {
		return err
	}
	return f.second.Adjust(context.WithoutCancel(ctx), changes)
}

// Reset forgets the key in both stores.
func (f *fallback) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	before := f.failures.Load()
	err := f.first.Reset(ctx, l, key)
	f.failed(before, err)
	return errors.Join(err, f.second.Reset(context.WithoutCancel(ctx), l, key))
}

// failed reports whether err means that the first store could not be reached, and
// tells of a change. before is the number of failures when the call began.
func (f *fallback) failed(before uint64, err error) bool {
	switch {
	case err == nil:
		if f.down.Load() && f.failures.Load() == before && f.now().UnixNano()-f.failedAt.Load() >= int64(calm) {
			f.change(false, nil)
		}
		return false
	case !errors.Is(err, limiter.ErrUnavailable):
		return false
	}
	f.failedAt.Store(f.now().UnixNano())
	f.failures.Add(1)
	if !f.down.Load() {
		f.change(true, err)
	}
	return true
}

// change tells of a change unless another call was faster.
func (f *fallback) change(down bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down.Load() == down {
		return
	}
	f.down.Store(down)
	f.told(down, err)
}

var _ limiter.Store = (*fallback)(nil)
