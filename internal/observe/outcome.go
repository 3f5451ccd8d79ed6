// Package observe tells operators what was decided. Whoever wants to know is an
// [Observer] and hears of every [Outcome]: metrics, the log and Caddy's events.
package observe

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// A Kind is what became of a request, as far as one zone or rule is concerned.
type Kind uint8

// The kinds.
const (
	Allowed    Kind = iota // passed
	Refused                // got an answer from us
	DryRefused             // would have been refused, but the zone or rule is a dry run
	Exempt                 // passed unasked
	StoreError             // no limit decided: the store could not, nor did its stand-in count
	Aborted                // got no answer: its connection was closed
	Tarpitted              // got its refusal slowly
	Marked                 // passed, with a rule's mark
	DryMarked              // would have been marked, but the rule is a dry run
	Banned                 // refused since its key is banned; no limit was asked
	DryBanned              // would have been refused for that, but the ban is a dry run
)

// kinds holds each kind's word in metrics.
var kinds = [...]string{
	Allowed:    "allowed",
	Refused:    "refused",
	DryRefused: "dry_refused",
	Exempt:     "exempt",
	StoreError: "store_error",
	Aborted:    "aborted",
	Tarpitted:  "tarpitted",
	Marked:     "marked",
	DryMarked:  "dry_marked",
	Banned:     "banned",
	DryBanned:  "dry_banned",
}

// String returns the kind's word in metrics.
func (k Kind) String() string { return kinds[k] }

// refuses reports whether the request did not get what it asked for.
func (k Kind) refuses() bool { return k == Refused || k == Aborted || k == Tarpitted || k == Banned }

// dry reports whether the request would not have got what it asked for, but for a dry run.
func (k Kind) dry() bool { return k == DryRefused || k == DryBanned }

// An Outcome is what one zone or one rule decided about a request. A request that
// several zones look at has an outcome for each of them; zones that would have let
// it pass while another refused it have none, since nothing was charged there.
type Outcome struct {
	// Request that was decided about. Observers do not keep it.
	Request *http.Request
	// Asked is what was asked about where there is no request: a job, a message.
	Asked *blocklist.Request
	Kind  Kind
	// Zone is whose limit decided; nil if a rule did.
	Zone *Zone
	// Rule is what decided; nil if a zone did.
	Rule *Rule
	// Name is the name of a rule of the shared list, of which Rule is only the origin: such names
	// are made at run time, and there may be any number. Else empty.
	Name string
	// Limit and Result are the ask that was refused, or would have been; Limit is
	// nil if there was none.
	Limit  *limiter.Limit
	Result limiter.Result
	// Blamed is set for the one of several refusing zones that the client is told of.
	Blamed bool
	// Key is the key of that ask in clear. It is logged only if LogKey is set.
	Key    string
	LogKey bool
	// Hasher turns Key into what is logged in any case: it tells clients apart and names
	// none. Nil if nothing is.
	Hasher *limiter.Hasher
}

// An Observer hears of outcomes. It must not block and is called from many goroutines
// at once.
type Observer interface {
	Observe(o Outcome)
}

// Observers tell each outcome to each of them, in order.
type Observers []Observer

// Observe tells all observers.
func (obs Observers) Observe(o Outcome) {
	for _, ob := range obs {
		ob.Observe(o)
	}
}

// A Zone is what observers keep about a zone of the configuration, made once when the
// configuration is loaded so that nothing is looked up for a request.
type Zone struct {
	// Name of the zone.
	Name string

	subject
}

// NewZone returns what observers keep about the zone of that name.
func NewZone(name string) *Zone {
	counters := resolve(collected.requests, zoneLabels.fit(name), Allowed, Refused, DryRefused, Exempt, StoreError, Banned, DryBanned)
	return &Zone{Name: name, subject: subject{counters: counters}}
}

// ruleName returns the name of the rule that decided.
func (o *Outcome) ruleName() string {
	if o.Name != "" {
		return o.Name
	}
	return o.Rule.Name
}

// A Rule is what observers keep about a rule of the configuration. Only requests that it
// matches have an outcome.
type Rule struct {
	// Name of the rule.
	Name string

	subject
}

// NewRule returns what observers keep about the rule of that name.
func NewRule(name string) *Rule {
	counters := resolve(collected.blocks, ruleLabels.fit(name), Refused, Aborted, Tarpitted, Marked, DryRefused, DryMarked)
	return &Rule{Name: name, subject: subject{counters: counters}}
}

// A subject is what zones and rules have in common.
type subject struct {
	counters [len(kinds)]prometheus.Counter // nil for kinds that do not occur
	lines    [len(kinds)]sampler            // of the log
	events   sampler
}

// subject returns the outcome's zone or rule; nil if it has neither.
func (o *Outcome) subject() *subject {
	switch {
	case o.Zone != nil:
		return &o.Zone.subject
	case o.Rule != nil:
		return &o.Rule.subject
	}
	return nil
}
