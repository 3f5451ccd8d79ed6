package config

import (
	"context"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
)

// DefaultCountAfter is the interval of a `count after` that names none.
const DefaultCountAfter = caddy.Duration(time.Second)

const (
	// mostLease is the most that a lease takes at a time.
	mostLease = 1_000_000
	// shortestAfter and longestAfter are the bounds of count_after.
	shortestAfter = 10 * time.Millisecond
	longestAfter  = time.Hour
	// afterShare is how many intervals a window should have: each node knows what the
	// others counted two intervals late.
	afterShare = 4
)

// checkModes checks how the zone's limits are asked about.
func (z *Zone) checkModes(r report, app *App) {
	quotas := z.quotas()
	if z.Lease != 0 {
		z.checkLease(r.in("lease"), app, quotas)
	}
	if z.CountAfter != 0 {
		z.checkAfter(r.in("count_after"), quotas)
	}
}

// quotas lists the zone's limits that have a quota.
func (z *Zone) quotas() (quotas []placed) {
	for _, l := range z.limits("") {
		if l.HasQuota() {
			quotas = append(quotas, l)
		}
	}
	return quotas
}

func (z *Zone) checkLease(r report, app *App, quotas []placed) {
	switch {
	case z.Lease < 2 || z.Lease > mostLease:
		r.problemf("must be between 2 and %d, got %d", mostLease, z.Lease)
		return
	case len(quotas) == 0:
		r.problemf("the zone has no limit of which anything could be taken ahead")
	case z.CountAfter != 0:
		r.problemf("cannot be had with count after, which asks no store at all")
	case z.CountRejected != 0:
		r.problemf("cannot be had with count_rejected: what is refused has to be counted at once")
	case z.Settle != nil:
		r.problemf("cannot be had with settle: what was taken ahead has no request yet")
	case app.Redis == nil:
		r.warn("has no effect without Redis: the memory store is no trip away")
	case z.MinInterval != 0 || z.InFlight != 0:
		r.warn("has no effect: min_interval and in_flight have to be asked for each request anyway")
	}
	cost := compileCost(newReport(), z.Cost)
	for _, l := range quotas {
		asked, hold := layer.Reserved(&l.Limit)
		switch {
		case l.Algorithm == limiter.TokenBucket && hold == 0:
			r.problemf("needs a burst of at least %d, %s has %d", layer.LeastReserveBurst, describe(l), l.Max())
		case cost.fixed > asked.Max() && cost.fixed <= l.Max():
			r.problemf("leaves %d of the burst of %s: no request at a cost of %d could ever pass", asked.Max(), describe(l), cost.fixed)
		case z.Lease > l.Max()/4:
			r.in("%s", describe(l)).warn("it is more than a quarter of this limit, beyond which nothing is taken ahead")
		}
	}
}

func (z *Zone) checkAfter(r report, quotas []placed) {
	interval := time.Duration(z.CountAfter)
	switch {
	case interval < shortestAfter || interval > longestAfter:
		r.problemf("must be between %s and %s, got %s", limiter.ShortDuration(shortestAfter), limiter.ShortDuration(longestAfter), limiter.ShortDuration(interval))
		return
	case len(quotas) == 0 && z.Ban == nil:
		r.problemf("the zone has no limit that could be counted afterwards")
	case z.MinInterval != 0:
		r.problemf("min_interval cannot be counted afterwards: give it a zone of its own")
	case z.InFlight != 0:
		r.problemf("in_flight cannot be counted afterwards: give it a zone of its own")
	case z.Settle != nil:
		r.problemf("cannot be had with settle, which corrects what was counted before")
	}
	for _, l := range quotas {
		switch {
		case l.Algorithm == limiter.TokenBucket:
			r.problemf("a token_bucket (%s) cannot be counted afterwards: it forgets at once what was spent beyond it", describe(l))
		case l.Window < afterShare*interval:
			r.in("%s", describe(l)).warn("its window has fewer than four intervals: each node may let the whole limit pass")
		}
	}
}

// A countsKey names in the pool what is counted afterwards for the store of that name.
type countsKey struct{ store any }

type pooledCounts struct {
	*layer.Counts

	local *memstore.Store // in which they are kept
}

// Destruct implements [caddy.Destructor]. What is not sent has been, before the store was let go.
func (pooledCounts) Destruct() error { return nil }

// openModes makes what decides without asking the store each time.
func (s *Shared) openModes() error {
	var store limiter.Store = s.memory
	key, o := countsKey{memoryKey{}}, layer.DeferredOptions{}
	if s.redis != nil {
		store, key = s.pooled.breaker, countsKey{s.app.redisKey()}
		o = layer.DeferredOptions{Receipts: true, Lane: s.pooled.Node}
		s.reserves = layer.NewReserves(s.pooled.breaker, layer.ReservesOptions{
			Timeout: time.Duration(s.app.Redis.Timeout),
			Freed:   s.pooled.refusals.Forget,
		})
	}
	v, err := s.holds.take(key, func() (caddy.Destructor, error) {
		local := memstore.New(memstore.Options{MaxKeys: s.app.MaxKeys, Now: Clock})
		return pooledCounts{layer.NewCounts(local, 0), local}, nil
	})
	if err != nil {
		return err
	}
	counts := v.(pooledCounts)
	s.counted = counts.local
	s.deferred = layer.NewDeferred(counts.Counts, store, o)
	return nil
}

// runReserves gives back what was taken ahead and is not spent.
func (s *Shared) runReserves(ctx context.Context) {
	if s.reserves != nil {
		s.reserves.Run(ctx)
	}
}

// closeModes has the store told what it has not been, before it is let go.
func (s *Shared) closeModes() {
	if s.reserves != nil {
		s.reserves.Close(context.Background())
	}
	if s.deferred != nil {
		// What could not be sent waits in the pool for the next configuration.
		_ = s.deferred.Flush(context.Background())
	}
}
