// Package layer holds stores that stand around another store and add one thing to it.
package layer

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Layer puts a store around another one.
type Layer func(limiter.Store) limiter.Store

// Fallback returns a layer that lets second decide whatever the store below cannot:
// every Take that fails with [limiter.ErrUnavailable]. Its results then say
// [limiter.Local]. Other errors are passed on. Each call asks the store below first;
// that a store known to be away is spared, and told of, is a [Breaker]'s work.
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
func Fallback(second limiter.Store) Layer {
	return func(first limiter.Store) limiter.Store { return &fallback{first: first, second: second} }
}

type fallback struct {
	first, second limiter.Store

	failed atomic.Bool // whether first ever has
}

// Take asks the first store, then the second.
func (f *fallback) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if err := f.first.Take(ctx, asks, results); !f.fails(err) {
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
	err := f.first.Release(ctx, asks)
	if f.fails(err) {
		err = nil
	}
	if !f.failed.Load() {
		return err
	}
	return errors.Join(err, f.second.Release(context.WithoutCancel(ctx), asks))
}

// Adjust applies changes to the store that decides at the moment.
func (f *fallback) Adjust(ctx context.Context, changes []limiter.Change) error {
	if err := f.first.Adjust(ctx, changes); !f.fails(err) {
		return err
	}
	return f.second.Adjust(context.WithoutCancel(ctx), changes)
}

// Reset forgets the key in both stores.
func (f *fallback) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	err := f.first.Reset(ctx, l, key)
	f.fails(err)
	return errors.Join(err, f.second.Reset(context.WithoutCancel(ctx), l, key))
}

// fails reports whether err means that the first store could not decide.
func (f *fallback) fails(err error) bool {
	if err == nil || !errors.Is(err, limiter.ErrUnavailable) {
		return false
	}
	if !f.failed.Load() {
		f.failed.Store(true)
	}
	return true
}

var _ limiter.Store = (*fallback)(nil)
