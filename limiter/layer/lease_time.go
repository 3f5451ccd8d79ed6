package layer

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// errLate is the error of a request whose time is up, so that the store is not asked about it.
var errLate = fmt.Errorf("the trips before took too long: %w", limiter.ErrUnavailable)

// A bounded context has a deadline, by which a store bounds its calls, and is not cancelled: those
// who share a trip do not depend on the client of the one that leads it.
type bounded struct {
	context.Context

	end time.Time
}

// Deadline implements [context.Context].
func (b *bounded) Deadline() (time.Time, bool) { return b.end, true }

// bounded returns a context for all trips of a request that came at now.
//
// That bounds what it waits for others as well: whoever leads a trip came before all who wait for
// it, so that the trip ends before their time is up.
func (v *Reserves) bounded(ctx context.Context, now time.Time) context.Context {
	ctx = context.WithoutCancel(ctx)
	if v.o.Timeout <= 0 {
		return ctx
	}
	return &bounded{ctx, now.Add(v.o.Timeout)}
}

// late reports whether a request's time is up.
func (v *Reserves) late(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && !v.o.Now().Before(end)
}
