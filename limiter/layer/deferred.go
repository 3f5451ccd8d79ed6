package layer

import (
	"context"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Deferred counts afterwards: what is asked of a limit with Limit.Deferred set is decided
// by [Counts], which lie in this process, and no store is asked. What has been counted is
// folded by key and sent to the store once in each interval of its limit, and what other processes
// counted is read back at the same time. It is safe for concurrent use.
//
// # What may pass
//
// Alone, a process lets no more pass than a limit says: its own requests are counted when they come.
// What others let pass it learns late, by at most twice the interval and the time that the
// response took. So the nodes together let pass, in any window in which one of them would,
//
//	limit + (nodes - 1) × the most that one node lets pass in 2 × (interval + trip) + response
//
// where the last factor is at most the limit, since each node keeps to that by itself. In a
// fixed_window those of the nodes need not begin together, and the same holds of each of them. A
// token_bucket is not fit for it: what several nodes spend beyond an empty bucket is forgotten at
// once, and comes again in each interval.
//
// # Outages
//
// While the store is away each process decides by what it knows, and what it counted waits: one
// number for each key, of which what has left the window meanwhile is dropped. A count is
// sent with a receipt, that the store keeps in the same step; if no answer comes, the receipt
// tells whether it was applied before it is sent again. So a count is neither lost nor
// counted twice, but for two cases: a process that dies takes with it what it has not sent, and after
// an outage of more than an hour, when receipts have ended, what had no answer is sent again.
type Deferred struct {
	*Counts
	store limiter.Store
	o     DeferredOptions
}

// DeferredOptions say how a [Deferred] sends. The zero value is good for a store that always
// answers.
type DeferredOptions struct {
	// Receipts is set if the store may fail so that it is not known whether it has done
	// what it was told. Each key then takes up some more room there, for as long as it
	// is counted under; see Deferred.
	Receipts bool
	// Lane returns which of several servers asks go to, as that of [BreakerOptions] does: what
	// waits for one that is away is kept apart from the rest. Without it there is one server.
	// It must return at once and must not call the Deferred.
	Lane func(asks []limiter.Ask) int
	// Over is told when a key has nothing left: by Count, when what was counted here with
	// what the store said last comes to the limit, or after sending, when the store
	// says so. It is told once, and again only after the key had something left or was
	// reset. r.Wait is how long until there is. Over must return soon and must not call
	// the Deferred.
	Over func(a limiter.Ask, r limiter.Result)
}

// farewell is the longest that a last sending takes.
const farewell = time.Second

// NewDeferred returns a Deferred that sends what is counted in c to the store. The store is to
// say ErrUnavailable rather than to decide itself while it is away: no [Fallback]. Several may
// use the same counts one after the other, or for a moment at once, as on a reload.
func NewDeferred(c *Counts, store limiter.Store, o DeferredOptions) *Deferred {
	if o.Lane == nil {
		o.Lane = func([]limiter.Ask) int { return 0 }
	}
	return &Deferred{Counts: c, store: store, o: o}
}

// Count counts asks of deferred limits that nobody has taken, each by itself, whether they fit
// or not: what is kept never exceeds the limit. It asks no store, and allocates only for a key
// that was not counted of late. No ask is kept.
func (d *Deferred) Count(asks []limiter.Ask) {
	for i := range asks {
		if asks[i].Cost <= 0 {
			continue
		}
		if r, over := d.count(asks[i : i+1]); over {
			d.tell(asks[i], r)
		}
	}
}

func (d *Deferred) tell(a limiter.Ask, r limiter.Result) {
	if d.o.Over != nil {
		d.o.Over(a, r)
	}
}

// Reset forgets a key here, and then in the store. What is here is forgotten even if the store
// fails. Other processes learn of it when they next read.
func (d *Deferred) Reset(ctx context.Context, l *limiter.Limit, key string) error {
	// What is being sent must not arrive after it.
	d.sending.Lock()
	defer d.sending.Unlock()
	if err := d.forget(ctx, l, key); err != nil {
		return err
	}
	return d.store.Reset(ctx, l, key)
}

// Run sends what is counted until ctx is done, and then once more all that is left, which
// takes no longer than a second.
func (d *Deferred) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(d.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			_ = d.Flush(ctx) // nobody is left who would want to know
			return
		case <-d.wake:
			timer.Stop()
			if d.crowded.Load() && d.send(ctx, true) == nil {
				d.crowded.Store(false)
			}
		case <-timer.C:
			// What failed waits for the next round, and the store's own layers tell of it.
			// A crowd that could not be sent is not looked at again before that.
			d.crowded.Store(false)
			_ = d.send(ctx, false)
		}
	}
}

// Flush sends all that is counted now. It does so even if ctx is done, for at most a second. An
// error says that some of it was not sent, and waits.
func (d *Deferred) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	return d.send(ctx, true)
}
