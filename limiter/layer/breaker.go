package layer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A BreakerState is a [Breaker]'s state. Its number is what metrics show.
type BreakerState int

// The states.
const (
	Closed   BreakerState = iota // calls reach the store
	HalfOpen                     // they do so again, on trial
	Open                         // they fail at once
)

// BreakerOptions says what a [Breaker] goes by and whom it tells. All of it may be left out.
// Functions that are told must return soon and must not call the store.
type BreakerOptions struct {
	// Lane returns which of several servers asks go to, a small number; below 0 if that is
	// not known, or there are several. Without it there is one server.
	Lane func(asks []limiter.Ask) int
	// Outage reports whether an error says that a server is away or decides nothing. Others
	// are about one key or one command, and open nothing. Default: all that wrap
	// [limiter.ErrUnavailable].
	Outage func(err error) bool
	// Down is told of the error with which an outage begins, Up of its end and how long the
	// store was away. They alternate.
	Down func(err error)
	Up   func(outage time.Duration)
	// Odd is told of errors that are no outage.
	Odd func(err error)
	// State is told of each change of the state; of several servers, of the worst one.
	State func(s BreakerState)
}

const (
	// mostFailures is how many calls fail in a row, or one of them while nobody is answered, until a lane
	// opens, if not sooner.
	mostFailures = 3
	// firstRest and longestRest are the longest rests before the next probe, early in
	// an outage and later. They have no random part below a half.
	firstRest   = 100 * time.Millisecond
	longestRest = 400 * time.Millisecond
	// calm is how long no call may fail until an outage is over.
	calm = time.Second
	// mostLanes is how many servers are told apart.
	mostLanes = 1 << 10
)

// errOpen is the error of a call that was not made.
var errOpen = fmt.Errorf("breaker is open: %w", limiter.ErrUnavailable)

// A Breaker is a store that spares another one, and whoever asks, calls that will fail: those
// fail at once, with an error that wraps [limiter.ErrUnavailable].
//
// It keeps a lane for each server. The first failure has a goroutine of the breaker probe the server, by looking at the key that failed: no
// request waits for that. A lane opens when the probe fails, when three calls in a row
// have, or with the first one during which two more were made and nobody was answered. While it is open the server is probed after a random rest of
// 50 to 100 ms, later of 200 to 400 ms, one probe at a time. When one succeeds the lane is half-open for a second: calls
// reach the server, and if one fails the lane opens again. A call over several servers fails at once
// if one of them is known to be away; if it fails itself, all of them are probed.
//
// Nothing is ever asked again: a call that failed is the caller's to decide. The store must end
// each call in time by itself. There is one goroutine at most for each lane, and only while
// something is wrong with its server.
type Breaker struct {
	store limiter.Store
	o     BreakerOptions
	ctx   context.Context // of the probes
	stop  context.CancelFunc

	lanes atomic.Pointer[[]*lane] // by number; the first is of asks whose server is not known

	mu     sync.Mutex // held while anybody is told
	open   int        // lanes that are open
	trials int        // and half-open
	since  time.Time  // when the first of them opened
	until  time.Time  // when the last one closed
}

// NewBreaker returns a breaker before a store. Close has to be called when it is not used any
// longer.
func NewBreaker(s limiter.Store, o BreakerOptions) *Breaker {
	if o.Lane == nil {
		o.Lane = func([]limiter.Ask) int { return 0 }
	}
	if o.Outage == nil {
		o.Outage = func(err error) bool { return errors.Is(err, limiter.ErrUnavailable) }
	}
	if o.Down == nil {
		o.Down = func(error) {}
	}
	if o.Up == nil {
		o.Up = func(time.Duration) {}
	}
	if o.Odd == nil {
		o.Odd = func(error) {}
	}
	if o.State == nil {
		o.State = func(BreakerState) {}
	}
	b := &Breaker{store: s, o: o}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.lanes.Store(new([]*lane))
	return b
}

// Close ends the breaker's work. Calls reach the store from then on, and nobody is told any
// more, save once that it is closed.
func (b *Breaker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	if b.state() != Closed {
		b.open, b.trials = 0, 0
		b.o.State(Closed)
	}
}

// Take asks the store unless its server is known to be away.
func (b *Breaker) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if b.ctx.Err() != nil {
		return b.store.Take(ctx, asks, results)
	}
	n := b.o.Lane(asks)
	if n < 0 && len(asks) > 1 {
		if b.anyOpen(asks) {
			return errOpen
		}
		err := b.store.Take(ctx, asks, results)
		b.suspect(err, asks)
		return err
	}
	l := b.lane(n)
	gate := l.gate.Load()
	if isOpen(gate) {
		return errOpen
	}
	began := l.begin(gate)
	err := b.store.Take(ctx, asks, results)
	switch {
	case err == nil:
		l.replied()
		if l.failures.Load() != 0 {
			l.failures.Store(0)
		}
	case b.counts(err):
		l.failed(began, err, &asks[0])
	default:
		l.replied()
	}
	return err
}

// anyOpen reports whether one of the asks' servers is known to be away.
func (b *Breaker) anyOpen(asks []limiter.Ask) bool {
	for i := range asks {
		if isOpen(b.lane(b.o.Lane(asks[i : i+1])).gate.Load()) {
			return true
		}
	}
	return false
}

// reaches reports whether a call about a key is to be made.
func (b *Breaker) reaches(l *limiter.Limit, key string) bool {
	return b.ctx.Err() != nil || !b.anyOpen([]limiter.Ask{{Limit: l, Key: key}})
}

// suspect has all servers probed of asks that failed together.
func (b *Breaker) suspect(err error, asks []limiter.Ask) {
	if err == nil || !b.counts(err) || b.ctx.Err() != nil {
		return
	}
	for i := range asks {
		l := b.lane(b.o.Lane(asks[i : i+1]))
		l.suspected(&asks[i])
	}
}

// counts reports whether an error is an outage. Those that are not are told of.
func (b *Breaker) counts(err error) bool {
	if b.o.Outage(err) {
		return true
	}
	if errors.Is(err, limiter.ErrUnavailable) {
		b.o.Odd(err)
	}
	return false
}

// lane returns the lane of a server.
func (b *Breaker) lane(n int) *lane {
	if n >= mostLanes {
		n = -1
	}
	n = max(n, -1) + 1
	if lanes := *b.lanes.Load(); n < len(lanes) {
		return lanes[n]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes := slices.Clone(*b.lanes.Load())
	for len(lanes) <= n {
		lanes = append(lanes, &lane{b: b, reopened: make(chan struct{}, 1)})
	}
	b.lanes.Store(&lanes)
	return lanes[n]
}

// opened notes that a lane has opened, again if it was on trial.
func (b *Breaker) opened(err error, again bool) {
	b.change(func() {
		b.open++
		switch {
		case again:
			b.trials--
		case b.open+b.trials == 1:
			b.since = time.Now()
			b.o.Down(err)
		}
	})
}

// reclosed notes that an open lane is on trial.
func (b *Breaker) reclosed() {
	b.change(func() {
		b.open--
		b.trials++
		b.until = time.Now()
	})
}

// calmed notes that a lane's trial is over.
func (b *Breaker) calmed() {
	b.change(func() {
		if b.trials--; b.open+b.trials == 0 {
			b.o.Up(b.until.Sub(b.since))
		}
	})
}

// change does a change, and tells of the state that it leads to.
func (b *Breaker) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return
	}
	before := b.state()
	do()
	if now := b.state(); now != before {
		b.o.State(now)
	}
}

func (b *Breaker) state() BreakerState {
	switch {
	case b.open > 0:
		return Open
	case b.trials > 0:
		return HalfOpen
	}
	return Closed
}

// Release gives leases back, save to servers that are known to be away: those end by themselves.
func (b *Breaker) Release(ctx context.Context, asks []limiter.Ask) error {
	through := passing(asks, func(a *limiter.Ask) bool { return b.reaches(a.Limit, a.Key) })
	if len(through) == 0 && len(asks) > 0 {
		return errOpen
	}
	err := b.store.Release(ctx, through)
	b.suspect(err, through)
	return orOpen(err, len(through) < len(asks))
}

// Renew implements [limiter.Renewer] if the store does. Leases on servers that are known to be away are
// left as they are.
func (b *Breaker) Renew(ctx context.Context, asks []limiter.Ask) error {
	renewer, ok := b.store.(limiter.Renewer)
	if !ok {
		return errors.ErrUnsupported
	}
	through := passing(asks, func(a *limiter.Ask) bool { return b.reaches(a.Limit, a.Key) })
	if len(through) == 0 && len(asks) > 0 {
		return errOpen
	}
	err := renewer.Renew(ctx, through)
	b.suspect(err, through)
	return orOpen(err, len(through) < len(asks))
}

// Adjust applies the changes whose servers are not known to be away.
func (b *Breaker) Adjust(ctx context.Context, changes []limiter.Change) error {
	through := passing(changes, func(c *limiter.Change) bool { return b.reaches(c.Limit, c.Key) })
	if len(through) == 0 && len(changes) > 0 {
		return errOpen
	}
	err := b.store.Adjust(ctx, through)
	if err != nil {
		asks := make([]limiter.Ask, len(through))
		for i, c := range through {
			asks[i] = limiter.Ask{Limit: c.Limit, Key: c.Key}
		}
		b.suspect(err, asks)
	}
	return orOpen(err, len(through) < len(changes))
}

// Reset forgets a key unless its server is known to be away.
func (b *Breaker) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	if !b.reaches(l, key) {
		return errOpen
	}
	err := b.store.Reset(ctx, l, key)
	b.suspect(err, []limiter.Ask{{Limit: l, Key: key}})
	return err
}

// passing returns the elements that pass: as a rule all, as they are.
func passing[T any](all []T, passes func(*T) bool) []T {
	for i := range all {
		if passes(&all[i]) {
			continue
		}
		some := slices.Clone(all[:i])
		for j := i + 1; j < len(all); j++ {
			if passes(&all[j]) {
				some = append(some, all[j])
			}
		}
		return some
	}
	return all
}

// orOpen adds that some calls were not made.
func orOpen(err error, some bool) error {
	if some {
		return errors.Join(err, errOpen)
	}
	return err
}

var (
	_ limiter.Store   = (*Breaker)(nil)
	_ limiter.Renewer = (*Breaker)(nil)
)
