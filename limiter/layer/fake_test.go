package layer

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirhq/caddy-weir/limiter"
)

// errDown is the error of a store that cannot be reached.
var errDown = fmt.Errorf("dial: %w", limiter.ErrUnavailable)

// A recorder is a store that writes its calls down and answers what it is told to.
type recorder struct {
	mu    sync.Mutex
	calls []string
	err   error
	wait  chan struct{} // if not nil: an answer needs one
}

func (f *recorder) call(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	return f.err
}

// fail sets what the calls that follow return.
func (f *recorder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// taken returns the calls since the last time it was asked.
func (f *recorder) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *recorder) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	err := f.call("take")
	if f.wait != nil {
		<-f.wait
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	for i := range asks {
		results[i] = limiter.Result{Allowed: true, Max: asks[i].Limit.Max(), Remaining: 1, Origin: limiter.Cached}
	}
	return nil
}

func (f *recorder) Release(context.Context, []limiter.Ask) error   { return f.call("release") }
func (f *recorder) Adjust(context.Context, []limiter.Change) error { return f.call("adjust") }
func (f *recorder) Reset(context.Context, *limiter.Limit, string) error {
	return f.call("reset")
}

var asks = []limiter.Ask{
	{Limit: &limiter.Limit{Zone: "api", Algorithm: limiter.SlidingWindow, Events: 5}, Key: "a", Cost: 1},
	{Limit: &limiter.Limit{Zone: "api", Algorithm: limiter.TokenBucket, Events: 5, Burst: 9}, Key: "a"},
}
