package layer

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// DefaultReserveKeys is how many busy keys [Reserves] know, unless told otherwise.
const DefaultReserveKeys = 1 << 14

// Reserves take events of busy keys from a store ahead of time: for a limit with Limit.Reserve
// n, up to n at a time in the same step that decides about a request. The requests that follow
// spend them here, and no store is asked. It is safe for concurrent use.
//
// # What may pass
//
// A reserved event is counted by the store before it is spent, so that all processes together never let
// more pass than the limit says. But it may be spent a while later than it was counted, and a window
// is no longer full when it has left. So it is held for a short time h only (see [Reserved]),
// and the store counts for so much longer: whatever passes in a span of W was counted in a
// span of W + h, in which the store admits no more than the limit. In detail:
//
//   - sliding_window, sliding_log and sliding_counter are counted over a window of W + h;
//   - a token_bucket has a burst that is smaller by what h refills;
//   - a fixed_window stays as it is: what is reserved in one ends with it.
//
// # What it costs
//
// At most n - 1 events of a key lie reserved in a process, for h and the moment that it takes to give
// them back; nobody else can have them meanwhile. No more is reserved than was spent in the last h, nor
// than a quarter of what the store has left: near its end a limit is asked exactly. What is given
// back to a sliding_window above 72 is rounded down to whole marks.
//
// A key that is not busy is asked about as ever, and so is a request with any ask that has to be put to
// the store anyhow: one of a limit without a reserve, a dry run, one that only looks.
//
// # Crowds
//
// While one request fetches a reserve, others under the same keys wait for it and then share the next
// trip, which asks for all of them at once. If that is refused, each is asked about by itself.
type Reserves struct {
	store  limiter.Store
	o      ReservesOptions
	seed   maphash.Seed
	most   int // keys in a shard
	shards [reserveShards]reserveShard
	terms  atomic.Pointer[map[*limiter.Limit]*reserveTerms]
	learn  sync.Mutex // held to change terms
	asks   sync.Pool  // of *[]limiter.Ask
	closed atomic.Bool
	wake   chan struct{}
}

// ReservesOptions say how reserves are made. All of it may be left out.
type ReservesOptions struct {
	// MaxKeys bounds the busy keys that are known. Default: [DefaultReserveKeys].
	MaxKeys int
	// Timeout is the longest that a request waits, for trips of others and its own together;
	// it should be as long as the store takes for one call at most. 0 sets no bound but the
	// store's own, for each trip.
	Timeout time.Duration
	// Freed is told of a key that something was given back to.
	Freed func(l *limiter.Limit, key string)
	// Now replaces the clock, which never steps, in tests.
	Now func() time.Time
}

// NewReserves returns reserves that are taken from the store.
func NewReserves(store limiter.Store, o ReservesOptions) *Reserves {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultReserveKeys
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Reserves{
		store: store,
		o:     o,
		seed:  maphash.MakeSeed(),
		most:  max(o.MaxKeys/reserveShards, 1),
		wake:  make(chan struct{}, 1),
	}
	v.terms.Store(new(map[*limiter.Limit]*reserveTerms))
	v.asks.New = func() any { return new([]limiter.Ask) }
	for i := range v.shards {
		v.shards[i].keys = make(map[rowName]*reserve)
	}
	return v
}

const (
	// reserveShare is the part of a window for which a reserve is held, and longestHold
	// the most.
	reserveShare = 20
	longestHold  = time.Second
	// burstShare is the part of a burst that may refill meanwhile.
	burstShare = 16
	// leftShare is the part of what the store has left that may be taken ahead.
	leftShare = 4
)

// LeastReserveBurst is the smallest burst of a token_bucket that is reserved of.
const LeastReserveBurst = burstShare

// mostTogether is how many asks a request may have that is paid from reserves.
const mostTogether = 8

// Reserved returns what a limit with a Reserve asks of the store, and for how long what is reserved
// is held: a twentieth of the window, at most a second, and with a token_bucket no longer than a
// sixteenth of the burst takes to come back. 0 stands for a limit that nothing is reserved of:
// one without quota or Reserve, or with too small a burst.
func Reserved(l *limiter.Limit) (limiter.Limit, time.Duration) {
	asked := *l
	if l.Reserve <= 1 || !l.HasQuota() {
		return asked, 0
	}
	hold := min(l.Window/reserveShare, longestHold).Truncate(time.Microsecond)
	switch l.Algorithm {
	case limiter.FixedWindow:
	case limiter.TokenBucket:
		// In h no more than this comes back: see the division below.
		cut := l.Max() / burstShare
		if cut == 0 {
			return asked, 0
		}
		back := float64(l.Window) * float64(cut) / float64(l.Events)
		hold = min(hold, time.Duration(back*0.999)).Truncate(time.Microsecond)
		asked.Burst = l.Max() - cut
	default:
		asked.Window += hold
	}
	return asked, hold
}

// reserveTerms are what Reserved says of a limit.
type reserveTerms struct {
	limit limiter.Limit
	hold  time.Duration
}

// termsOf returns the terms of a limit with a Reserve. There are as many as limits in a
// configuration.
func (v *Reserves) termsOf(l *limiter.Limit) *reserveTerms {
	if t := (*v.terms.Load())[l]; t != nil {
		return t
	}
	v.learn.Lock()
	defer v.learn.Unlock()
	known := *v.terms.Load()
	if t := known[l]; t != nil {
		return t
	}
	more := make(map[*limiter.Limit]*reserveTerms, len(known)+1)
	for k, t := range known {
		more[k] = t
	}
	t := new(reserveTerms)
	t.limit, t.hold = Reserved(l)
	more[l] = t
	v.terms.Store(&more)
	return t
}

// Take implements [limiter.Store]. It allocates nothing for a request that is paid from
// reserves.
func (v *Reserves) Take(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	if !reserves(asks) {
		return v.store.Take(ctx, asks, results)
	}
	if !v.all(asks) {
		return v.exactly(ctx, asks, results)
	}
	now := v.o.Now()
	if v.pay(now, asks, results) {
		return nil
	}
	ctx = v.bounded(ctx, now)
	if passed, err := v.travel(ctx, now, asks, results); passed || err != nil {
		return err
	}
	if v.late(ctx) {
		return errLate
	}
	if v.holds(now, asks) {
		return v.alone(ctx, asks, results)
	}
	return v.exactly(ctx, asks, results)
}

// reserves reports whether any ask is of a limit with a reserve.
func reserves(asks []limiter.Ask) bool {
	for i := range asks {
		if asks[i].Limit.Reserve > 1 {
			return true
		}
	}
	return false
}

// all reports whether a request may be paid from reserves.
func (v *Reserves) all(asks []limiter.Ask) bool {
	if len(asks) > mostTogether {
		return false
	}
	for i := range asks {
		l := asks[i].Limit
		if l.Reserve <= 1 || l.Shadow || l.Ceiling > 0 || asks[i].Cost <= 0 || v.termsOf(l).hold == 0 {
			return false
		}
	}
	return !v.closed.Load()
}

// exactly asks the store about a request, and for no more than that.
func (v *Reserves) exactly(ctx context.Context, asks []limiter.Ask, results []limiter.Result) error {
	room := v.asks.Get().(*[]limiter.Ask)
	defer v.asks.Put(room)
	put := append((*room)[:0], asks...)
	for i := range put {
		if put[i].Limit.Reserve > 1 {
			put[i].Limit = &v.termsOf(put[i].Limit).limit
		}
	}
	err := v.store.Take(ctx, put, results)
	clear(put)
	*room = put
	if err != nil {
		return err
	}
	now := v.o.Now()
	for i := range asks {
		if asks[i].Limit.Reserve > 1 {
			v.heard(now, &asks[i], &results[i])
		}
	}
	return nil
}

// Release gives leases back. See [limiter.Store].
func (v *Reserves) Release(ctx context.Context, asks []limiter.Ask) error {
	return v.store.Release(ctx, asks)
}

// Adjust applies changes. See [limiter.Store].
func (v *Reserves) Adjust(ctx context.Context, changes []limiter.Change) error {
	for i := range changes {
		if changes[i].Limit.Reserve > 1 {
			put := append([]limiter.Change(nil), changes...)
			for i := range put {
				if put[i].Limit.Reserve > 1 {
					put[i].Limit = &v.termsOf(put[i].Limit).limit
				}
			}
			return v.store.Adjust(ctx, put)
		}
	}
	return v.store.Adjust(ctx, changes)
}

// Reset forgets a key, and what is reserved of it here. What other processes have reserved they may
// still spend.
func (v *Reserves) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	v.drop(l, key)
	return v.store.Reset(ctx, l, key)
}

var _ limiter.Store = (*Reserves)(nil)
