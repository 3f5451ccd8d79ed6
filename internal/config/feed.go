package config

import (
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// Feed makes a zone one for readers of feeds: each key has two budgets for each feed, one for
// requests that ask what is new, and one for those that want everything again. What a reader
// cannot help is free: subscribing, the same request a few times at once, each new version
// once, and fetching everything twice a day if it is polite otherwise.
//
// The zone's key is whose budgets they are; by default {http.vars.client_ip}. Feeds, versions
// and readers are remembered by each node for itself, the budgets where all counts are.
type Feed struct {
	// Conditional is how often a reader may ask with a validator that it was given.
	// Default: 1 in 1h, 2 at once.
	Conditional FeedRate `json:"conditional,omitzero"`
	// Unconditional is how often it may fetch the whole feed. Default: 1 in 24h, 3 at once.
	Unconditional FeedRate `json:"unconditional,omitzero"`
	// Parameters of the query that tell feeds apart. Default: none, whatever the query says
	// it is the same feed.
	Parameters []string `json:"parameters,omitempty"`
	// Aliases are lists of paths, two or more, that are one feed.
	Aliases [][]string `json:"aliases,omitempty"`
	// Over is what a reader gets whose budget is spent: `refuse`, `not_modified`, `announce`
	// or `explain`. Default: `refuse`, a refusal with status 429.
	Over string `json:"over,omitempty"`
	// Announce is for how long after a change everybody gets the whole feed, if Over is
	// `announce`.
	Announce caddy.Duration `json:"announce,omitempty"`
	// ExplainAfter is after how many refusals a reader is told why in its feed, if Over is
	// `explain`. Default: 3.
	ExplainAfter int `json:"explain_after,omitempty"`
	// Strict refuses conditional requests over budget too. Default: they are told 304 if
	// they show the current version, and nobody else is asked.
	Strict bool `json:"strict,omitempty"`
	// MaxAge is how long answers are fresh, for Cache-Control. Default: what the feed says.
	MaxAge caddy.Duration `json:"max_age,omitempty"`
	// MaxWait is the longest Retry-After. Default: 24h.
	MaxWait caddy.Duration `json:"max_wait,omitempty"`
	// IgnoreHints leaves what feeds say of themselves out of account: ttl, updatePeriod,
	// updateFrequency, skipHours and skipDays.
	IgnoreHints bool `json:"ignore_hints,omitempty"`
	// ByBytes charges a whole feed by its size against the usual one.
	ByBytes bool `json:"by_bytes,omitempty"`
	// Escalate is how many times as far apart, at most, the whole feeds of a reader may be that
	// comes before the Retry-After it was told, 2 to 100: twice as far with each such
	// request, one at a time. Half of that is forgotten with each day without one. Polls and
	// new versions stay as they are. Default: 0, never.
	Escalate int `json:"escalate,omitempty"`
	// People lets an address have more by how many readers there seem to be behind it.
	People *People `json:"people,omitempty"`
	// Aggregators lets services that fetch for many readers have more, once they are verified.
	Aggregators *Aggregators `json:"aggregators,omitempty"`
	// Stale is for how long the last good copy of a feed takes the place of an error of the
	// site, or of a refusal by a limit on all clients together. Default: never.
	Stale caddy.Duration `json:"stale,omitempty"`
	// StaleMemory is how many bytes the copies of the zone may take in all; one may take a
	// quarter of them. Default: 33554432, 32 MiB.
	StaleMemory int64 `json:"stale_memory,omitempty"`
}

// FeedRate is one of the budgets of a feed. A tenth of Window may be missing.
type FeedRate struct {
	// Events allowed in each Window.
	Events int64          `json:"events,omitempty"`
	Window caddy.Duration `json:"window,omitempty"`
	// Burst is how many may come at once.
	Burst int64 `json:"burst,omitempty"`
}

// The words of Feed.Over.
const (
	overRefuse      = "refuse"
	overNotModified = "not_modified"
	overAnnounce    = "announce"
	overExplain     = "explain"
)

// OversOfFeed are the words of Feed.Over.
var OversOfFeed = []string{overRefuse, overNotModified, overAnnounce, overExplain}

// What Feed's zero values stand for.
const (
	defaultConditional        = caddy.Duration(time.Hour)
	defaultConditionalBurst   = 2
	defaultUnconditional      = caddy.Duration(24 * time.Hour)
	defaultUnconditionalBurst = 3
	defaultExplainAfter       = 3
	defaultFeedWait           = caddy.Duration(24 * time.Hour)
	// feedJitter lengthens Retry-After where the handler says nothing.
	feedJitter = 0.1
	// feedKey is the key of a feed's zone that has none.
	feedKey = "{http.vars.client_ip}"
	// mostFeedEvents bounds the events and the burst of a budget.
	mostFeedEvents = 1_000_000
)

// The indexes of a feed's budgets among the limits of its zone: fixed, so that whatever else
// joins or leaves the zone takes no count away from them.
var feedIndexes = [2]int{feed.Unconditional: 800, feed.Conditional: 801}

// resolved returns the feed with its defaults filled in.
func (f *Feed) resolved() *Feed {
	if f == nil {
		return nil
	}
	c := *f
	c.Conditional.fill(defaultConditional, defaultConditionalBurst)
	c.Unconditional.fill(defaultUnconditional, defaultUnconditionalBurst)
	setDefault(&c.Over, overRefuse)
	if c.Over == overExplain {
		setDefault(&c.ExplainAfter, defaultExplainAfter)
	}
	setDefault(&c.MaxWait, defaultFeedWait)
	c.People = c.People.resolved()
	c.Aggregators = c.Aggregators.resolved()
	if c.Stale != 0 {
		setDefault(&c.StaleMemory, defaultCopyMemory)
	}
	return &c
}

func (b *FeedRate) fill(window caddy.Duration, burst int64) {
	if b.Window == 0 && b.Events == 0 {
		b.Events, b.Window = 1, window
	}
	setDefault(&b.Burst, burst)
}

// check says what is wrong with a feed and with the zone that it stands in.
func (f *Feed) check(r report, z *Zone) {
	if f == nil {
		return
	}
	c := f.resolved()
	c.Conditional.check(r.in("conditional"))
	c.Unconditional.check(r.in("unconditional"))
	if slices.Contains(c.Parameters, "") {
		r.in("parameters").problemf("must not be empty")
	}
	_, err := feed.NewKey(c.Parameters, c.Aliases)
	r.problem(err)
	c.checkOver(r)
	if c.MaxAge < 0 || c.MaxAge > caddy.Duration(limiter.MaxWindow) {
		r.in("max_age").problemf("must be between 1s and %s, got %s", limiter.ShortDuration(limiter.MaxWindow), time.Duration(c.MaxAge))
	}
	if c.MaxWait < caddy.Duration(time.Second) {
		r.in("max_wait").problemf("must be at least 1s, got %s", time.Duration(c.MaxWait))
	}
	c.checkEscalate(r.in("escalate"))
	c.People.check(r.in("people"))
	c.Aggregators.check(r.in("aggregators"))
	f.checkStale(r)
	switch {
	case z.Lease != 0:
		r.problemf("cannot be had with lease: what was taken ahead has no request yet")
	case z.CountAfter != 0:
		r.problemf("cannot be had with count after, which corrects nothing")
	case z.CountRejected != 0:
		r.problemf("cannot be had with count_rejected: most readers do not know that they are refused, and would never be served again")
	}
}

func (f *Feed) checkOver(r report) {
	r.in("over").oneOf(f.Over, OversOfFeed...)
	switch {
	case f.Announce < 0:
		r.in("announce").problemf("must be positive, got %s", time.Duration(f.Announce))
	case f.Over == overAnnounce && f.Announce == 0:
		r.in("announce").problemf("is missing, for how long after a change")
	case f.Over != overAnnounce && f.Announce != 0:
		r.in("announce").problemf("needs over announce")
	}
	switch {
	case f.ExplainAfter < 0:
		r.in("explain_after").problemf("must be at least 1, got %d", f.ExplainAfter)
	case f.Over != overExplain && f.ExplainAfter != 0:
		r.in("explain_after").problemf("needs over explain")
	}
}

func (f *Feed) checkStale(r report) {
	if f.Stale != 0 && (f.Stale < caddy.Duration(time.Second) || f.Stale > caddy.Duration(limiter.MaxWindow)) {
		r.in("stale").problemf("must be between 1s and %s, got %s", limiter.ShortDuration(limiter.MaxWindow), time.Duration(f.Stale))
	}
	if f.Stale == 0 && f.StaleMemory != 0 {
		r.in("stale_memory").problemf("needs stale")
		return
	}
	checkMemory(r.in("stale_memory"), f.StaleMemory)
}

func (b *FeedRate) check(r report) {
	switch {
	case b.Events < 1 || b.Events > mostFeedEvents:
		r.in("events").problemf("must be between 1 and %d, got %d", mostFeedEvents, b.Events)
	case b.Burst < 1 || b.Burst > mostFeedEvents:
		r.in("burst").problemf("must be between 1 and %d, got %d", mostFeedEvents, b.Burst)
	case b.Window < caddy.Duration(time.Second) || b.Window > caddy.Duration(limiter.MaxWindow):
		r.in("window").problemf("must be between 1s and %s, got %s", limiter.ShortDuration(limiter.MaxWindow), time.Duration(b.Window))
	default:
		l := b.limit("feed", 0, 1)
		way, err := algorithm.Find(l.Algorithm)
		if err == nil {
			err = way.Check(&l)
		}
		r.problem(err)
	}
}

// limit returns the budget as a limit, that many times as high. A reader comes a little early
// now and then, and so a tenth of the window may be missing.
func (b *FeedRate) limit(zone string, index, factor int) limiter.Limit {
	times := min(int64(factor), limiter.MaxEvents/feed.Full/max(b.Events, b.Burst))
	return limiter.Limit{
		Zone: zone, Algorithm: limiter.TokenBucket, Index: index,
		Events: b.Events * feed.Full * times,
		Burst:  b.Burst * feed.Full * times,
		Window: (time.Duration(b.Window) / 10 * 9).Truncate(time.Microsecond),
	}
}

// rules are what the feed's book has to know.
func (f *Feed) rules() feed.Rules {
	return feed.Rules{
		Announce: time.Duration(f.Announce), MaxAge: time.Duration(f.MaxAge), MaxWait: time.Duration(f.MaxWait),
		Deaf: f.IgnoreHints, Bytes: f.ByBytes, Escalate: f.Escalate,
		Often: time.Duration(f.Conditional.Window) / time.Duration(f.Conditional.Events),
	}
}

// parts returns the parts of the zone's key.
func (z *Zone) parts() Parts {
	switch {
	case len(z.Key) > 0:
	case z.Feed != nil:
		return Parts{feedKey}
	case z.Previews != nil:
		return Parts{previewKey}
	}
	return z.Key
}
