package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/weirhq/caddy-weir/limiter"
)

// Names of the events.
const (
	eventExceeded = "rate_limit_exceeded"
	eventRuleHit  = "block.rule_hit"
	eventDown     = "store.down"
	eventUp       = "store.up"
	eventBanBegun = "ban.begun"
	eventBanEnded = "ban.ended"
	eventStale    = "blocklist.stale"
)

// maxEvents is how many events wait for their handlers at most. What comes while that
// many wait is dropped: handlers may be slow, requests may not.
const maxEvents = 256

// Events is the observer that emits Caddy events, to which a configuration's event
// handlers may subscribe:
//
//   - rate_limit_exceeded for each refused request, with zone (of several the blamed one), wait (a
//     duration; -1 if no waiting helps), remote_ip (the peer) and client_ip (what trusted proxies say)
//
//   - block.rule_hit for the first request in a second that a rule refuses and every
//     thousandth after it, with rule, remote_ip, client_ip and skipped, the number of
//     hits passed over since the last event
//
//   - store.down when an outage of the store begins, with error, and store.up when it has ended, with
//     outage, how long the store was away (a duration)
//
//   - ban.begun for each ban that a zone of this node makes, with zone, scope, ban (what its
//     key is called), reason, count (how many of this key so far), length, until, and client_ip, host
//     and path of the last request that counted, as far as they are known
//
//   - ban.ended for each ban on the shared list that was in force on this node and is no longer, whoever
//     made it, with zone, scope, origin, ban, how (over, or lifted), reason, count, since, until, and
//     client_ip where the ban has it
//
//   - blocklist.stale when the shared block list could not be read for a minute, with list (where it
//     is kept), age (a duration: how old the list in force is) and error
//
// Dry runs emit nothing. While nobody subscribes nothing is done.
type Events struct {
	ctx   caddy.Context
	app   *caddyevents.App
	ready atomic.Bool
	queue chan event
}

type event struct {
	name string
	data map[string]any
}

// NewEvents returns an observer whose events have the module of ctx as their origin. It
// must be called while the module is provisioned.
func NewEvents(ctx caddy.Context) (*Events, error) {
	app, err := ctx.App("events")
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	e := &Events{ctx: ctx, app: app.(*caddyevents.App), queue: make(chan event, maxEvents)}
	// The events app takes its subscriptions down while it starts, without a lock, and
	// requests may come before it has. Once Caddy says that all apps have started
	// the subscriptions stand.
	if err := e.app.On("started", starter{e}); err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return e, nil
}

// starter learns that all apps have started.
type starter struct{ events *Events }

// Handle implements [caddyevents.Handler].
func (s starter) Handle(context.Context, caddy.Event) error {
	s.events.ready.Store(true)
	return nil
}

// Run hands the events to their handlers, one after the other, until ctx is done. A
// handler that is at work then is told by its context, but not waited for: it must not
// hold up a reload.
func (e *Events) Run(ctx context.Context) {
	go e.run(ctx)
	<-ctx.Done()
}

func (e *Events) run(ctx context.Context) {
	origin := e.ctx
	origin.Context = ctx
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-e.queue:
			if ctx.Err() != nil {
				return // both were ready, and Caddy logs events that come too late as errors
			}
			e.app.Emit(origin, ev.name, ev.data)
		}
	}
}

// Observe queues the event of a refusal if anybody listens.
func (e *Events) Observe(o Outcome) {
	if !o.Kind.refuses() || o.Zone != nil && !o.Blamed || !e.ready.Load() {
		return
	}
	switch {
	case o.Zone != nil && e.app.ShouldEmit(eventExceeded):
		wait := o.Result.Wait
		if wait == limiter.Never {
			wait = -1
		}
		e.emit(eventExceeded, o, map[string]any{"zone": o.Zone.Name, "wait": wait})
	case o.Rule != nil && e.app.ShouldEmit(eventRuleHit):
		if skipped, ok := o.Rule.events.pick(time.Now()); ok {
			e.emit(eventRuleHit, o, map[string]any{"rule": o.ruleName(), "skipped": skipped})
		}
	}
}

// StoreDown queues the event of an outage that has begun, if anybody listens.
func (e *Events) StoreDown(err error) {
	if e.ready.Load() && e.app.ShouldEmit(eventDown) {
		e.enqueue(eventDown, map[string]any{"error": err.Error()})
	}
}

// StoreUp queues the event of an outage that has ended, if anybody listens.
func (e *Events) StoreUp(outage time.Duration) {
	if e.ready.Load() && e.app.ShouldEmit(eventUp) {
		e.enqueue(eventUp, map[string]any{"outage": outage})
	}
}

// emit queues the event of an outcome.
func (e *Events) emit(name string, o Outcome, data map[string]any) {
	if o.Request != nil {
		data["remote_ip"] = remoteIP(o.Request)
		data["client_ip"] = clientIP(o.Request)
	}
	e.enqueue(name, data)
}

// enqueue queues an event unless the queue is full.
func (e *Events) enqueue(name string, data map[string]any) {
	select {
	case e.queue <- event{name, data}:
	default:
	}
}

var _ Observer = (*Events)(nil)
