package config

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/limiter"
)

// lessors keep the leases of one handler's requests.
type lessors struct {
	first  *lessor // of the store that is asked first
	second *lessor // of the one that stands in for it; nil if that keeps nothing
}

// Leases are the places of in_flight limits that one request holds. Nil holds none.
type Leases struct {
	held []heldLease
	uses atomic.Int32 // the handlers, and each connection that was taken over
}

type heldLease struct {
	*lease
	lessor *lessor
}

// nameLeases gives the request's asks of in_flight limits a lease's name.
func nameLeases(asks []limiter.Ask) {
	name := ""
	for i := range asks {
		if asks[i].Limit.Algorithm == limiter.InFlight {
			if name == "" {
				name = leaseName()
			}
			asks[i].Lease = name
		}
	}
}

// returnWait is the longest that a request which finds no place waits for one that is being
// given back.
const returnWait = 10 * time.Millisecond

// take asks the store. Places are given back off the path of the requests that held them, so
// that a client may be sooner with its next request. One that is refused for want of
// such a place asks once more when it has been given back.
func (l lessors) take(ctx context.Context, s limiter.Store, asks []limiter.Ask, results []limiter.Result) (limiter.Decision, error) {
	nameLeases(asks)
	start := time.Now()
	number := l.first.returning(asks)
	d, err := limiter.Take(ctx, s, asks, results)
	if err != nil || number == 0 || !wantsPlace(&d) {
		return d, err
	}
	// A store that took so long may take as long again: then the request has waited enough.
	within := returnWait - time.Since(start)
	if within <= 0 || !l.first.await(number, within) {
		return d, nil
	}
	// Under a new name, since what the first step took in some slots of a cluster may still
	// be on its way back.
	nameLeases(asks)
	return limiter.Take(ctx, s, asks, results)
}

// wantsPlace reports whether a request is refused by the store itself, for want of a place
// and for nothing else.
func wantsPlace(d *limiter.Decision) bool {
	for i := range d.Results {
		r, l := &d.Results[i], d.Asks[i].Limit
		if r.Origin == limiter.Local || !r.Allowed && !l.Shadow && l.Algorithm != limiter.InFlight {
			return false
		}
	}
	return !d.Allowed
}

// collect returns what a decision has leased, nil if that is nothing.
func (l lessors) collect(d *limiter.Decision) *Leases {
	var leases *Leases
	for i := range d.Results {
		ask, r := d.Asks[i], &d.Results[i]
		if ask.Limit.Algorithm != limiter.InFlight || ask.Cost <= 0 {
			continue
		}
		from := l.first
		if r.Origin == limiter.Local {
			from.stray(ask)
			from = l.second
		}
		if from == nil || !d.Allowed || !r.Allowed {
			continue
		}
		if leases == nil {
			leases = new(Leases)
			leases.uses.Store(1)
		}
		leases.held = append(leases.held, heldLease{from.hold(ask), from})
	}
	return leases
}

// Serve passes the request on. Its places are free again when the handlers have returned,
// in whatever way, and every connection that they took over is closed.
func (l *Leases) Serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if l == nil {
		return next.ServeHTTP(w, r)
	}
	defer l.done()
	if r.ProtoMajor == 1 { // later versions have no connections to take over
		w = &leasedWriter{caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, l}
	}
	return next.ServeHTTP(w, r)
}

// done ends one use, and with the last one the leases.
func (l *Leases) done() {
	if l.uses.Add(-1) > 0 {
		return
	}
	for _, h := range l.held {
		h.lessor.end(h.lease)
	}
}
