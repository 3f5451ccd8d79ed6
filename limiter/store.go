package limiter

import (
	"context"
	"errors"
	"time"
)

// An Ask claims a cost from a limit under a key.
type Ask struct {
	Limit *Limit
	// Key is whose budget is asked: any bytes, see [JoinKey].
	Key string
	// Cost is how much is claimed. With 0 an ask only looks: it is always
	// allowed, changes nothing, and Wait tells when a cost of 1 would pass.
	Cost int64
	// Lease names one running request to an in_flight limit; taking it again
	// renews it. Other algorithms ignore it.
	Lease string
}

// Origin tells who decided.
type Origin uint8

// The origins of a result.
const (
	Exactly Origin = iota // the store itself, just now
	Cached                // this process, by what it remembers of the store's answers
	Local                 // a stand-in, while the store cannot be reached
)

// String returns the origin's word in metrics and logs.
func (o Origin) String() string {
	switch o {
	case Cached:
		return "cached"
	case Local:
		return "local"
	}
	return "exact"
}

// A Result answers one ask.
type Result struct {
	// Allowed is what this limit alone says. A request is refused when any ask
	// that is not a shadow is refused.
	Allowed bool
	// Origin tells who decided.
	Origin Origin
	// Max is the most that can be left, Remaining what is left after this step:
	// never below zero, never above Max.
	Max, Remaining int64
	// Reset is how long until the key is as good as new. No state outlives it.
	Reset time.Duration
	// Wait is 0 when the ask is allowed (for a cost of 0: when a cost of 1 would
	// be), else the least time after which the same ask passes if nobody else
	// spends meanwhile, or Never.
	Wait time.Duration
	// Now is the store's clock at the step, which a later Change refers to.
	Now Instant
}

// A Change corrects what was counted under a key.
type Change struct {
	Limit *Limit
	Key   string
	// Delta is added to what is used: negative gives back, positive charges,
	// even above the limit (what is kept never exceeds it).
	Delta int64
	// Spent is Result.Now of the step that is corrected. What has left its
	// window since is not given back a second time. 0 stands for no step in
	// particular: an operator's grant.
	Spent Instant
}

// A Store keeps what was counted and decides by its own clock. Every method may be
// called from many goroutines at once. No method keeps its arguments after it
// returned.
//
// An error that wraps [ErrUnavailable] says that the store could not decide in time;
// whether anything was charged is then unknown, and the call must not be repeated.
type Store interface {
	// Take answers all asks in one atomic step and fills results, which is as
	// long as asks. All are charged if every ask that is not a shadow is
	// allowed; else none is, save that a limit with a Ceiling counts the asks
	// which it refused itself. A shadow is charged only with the rest, and only
	// if it is itself allowed.
	//
	// Two asks of one call never name the same state.
	Take(ctx context.Context, asks []Ask, results []Result) error
	// Release gives the leases of in_flight asks back. Asks of other limits and
	// leases that are not held are passed over.
	Release(ctx context.Context, asks []Ask) error
	// Adjust applies changes. A give-back never drives what is used below zero
	// and never lets a key pass more in a window than its limit.
	Adjust(ctx context.Context, changes []Change) error
	// Reset forgets what was counted under a key.
	Reset(ctx context.Context, l *Limit, key string) error
}

// A Renewer is a store that renews leases many at a time. The stores that keep states are;
// layers that choose between stores are not, since a lease is renewed where it was taken.
type Renewer interface {
	// Renew holds the leases of in_flight asks for another Window, each by itself. One
	// that was lost is taken again if there is room, and what becomes of it is not told.
	// Asks of other limits are passed over; several may name one state.
	Renew(ctx context.Context, asks []Ask) error
}

// ErrUnavailable is wrapped by the error of a store that could not decide in time.
var ErrUnavailable = errors.New("store unavailable")
