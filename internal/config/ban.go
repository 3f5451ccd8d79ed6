package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// Ban keeps a key out for a while when it has done something too often: fails to log in, say,
// or goes on asking after it was refused. What counts is known when a request has been answered,
// and counting never delays an answer.
//
// Clients that are exempt from the zone, protected addresses (loopback, this machine's own,
// trusted proxies, what the app protects or allows) and private networks are neither counted
// nor banned.
type Ban struct {
	// Events in Window begin a ban, with the last of them. Required.
	Events int64          `json:"events"`
	Window caddy.Duration `json:"window"`
	// Count says what counts: `requests` (all of the zone), `refusals` (by the zone's
	// limits), or statuses of answers such as `401` and `4xx`. Refusals by this
	// module are never answers that count. Default: `refusals`, so that nobody is banned who
	// keeps within the limits.
	Count []string `json:"count,omitempty"`
	// For is how long the first ban lasts, at least 1s. Default: 10m.
	For caddy.Duration `json:"for,omitempty"`
	// Grow makes each further ban of a key this many times as long as the one before, 1 to
	// 100. Default: 1.
	Grow float64 `json:"grow,omitempty"`
	// Max is the longest that a ban becomes by growing. Default: 1d, or For if that is more.
	Max caddy.Duration `json:"max,omitempty"`
	// Quiet is after how much time without a ban one of a key's bans is forgotten, so that
	// the next one grows less. Only with Grow. Default: 1d.
	Quiet caddy.Duration `json:"quiet,omitempty"`
	// Rolling makes each attempt during a ban begin it anew, until it has lasted this long in
	// all. Default: 0, attempts change nothing.
	Rolling caddy.Duration `json:"rolling,omitempty"`
	// Spread lengthens each ban by up to this fraction, so that not all who were banned
	// together return together. 0 to 1. Default: 0.1.
	Spread *float64 `json:"spread,omitempty"`
	// Scope is what a ban reaches: `zone` (the requests of this zone), `site` (all to the
	// host where it was made) or `all`. The latter two need a key that is the client's address
	// alone, and a block handler, which refuses. Default: `zone`.
	Scope string `json:"scope,omitempty"`
	// Rollup bans the network around when several of its parts are banned. Needs a key
	// that is the client's address alone.
	Rollup *Rollup `json:"rollup,omitempty"`
	// People allows an address more by how many people there seem to be behind it. Needs a
	// key that is the client's address alone.
	People *People `json:"people,omitempty"`
	// Status of the refusal in the zone. Default: the handler's.
	Status int `json:"status,omitempty"`
	// PrivateRanges lets clients in private networks be banned as well.
	PrivateRanges bool `json:"private_ranges,omitempty"`
	// DryRun makes bans that are counted and reported, but refuse nobody.
	DryRun bool `json:"dry_run,omitempty"`
}

// Rollup bans a network when some of its parts are banned at the same time: who is given a
// whole IPv6 network may change his /64 at will.
type Rollup struct {
	// Neighbours that are banned make the network around them banned too. At least 2.
	Neighbours int `json:"neighbours"`
	// IPv4 and IPv6 are the networks around, by their bits, each made of the one before it. An
	// IPv4 network has many owners: none is banned unless it is written here. Default
	// for IPv6: 56 and 48.
	IPv4 []int `json:"ipv4,omitempty"`
	IPv6 []int `json:"ipv6,omitempty"`
}

// What Ban's zero values stand for.
const (
	defaultBanFor    = caddy.Duration(10 * time.Minute)
	defaultBanMax    = caddy.Duration(24 * time.Hour)
	defaultBanQuiet  = caddy.Duration(24 * time.Hour)
	defaultBanSpread = 0.1
	// usualRolling is the ceiling of a rolling ban in a Caddyfile that names none.
	usualRolling = caddy.Duration(24 * time.Hour)
)

// UsualRolling is how long a rolling ban lasts at most if nobody says otherwise: a day, or the
// ban's own length if that is more.
func (b *Ban) UsualRolling() caddy.Duration { return max(usualRolling, b.For, b.Max) }

// The words of Ban.Count that are no statuses.
const (
	countRequests = "requests"
	countRefusals = "refusals"
)

// defaultRollupIPv6 are the networks that IPv6 customers are given.
var defaultRollupIPv6 = []int{56, 48}

// resolved returns the ban with every default filled in.
func (b *Ban) resolved() *Ban {
	if b == nil {
		return nil
	}
	c := *b
	if len(c.Count) == 0 {
		c.Count = []string{countRefusals}
	}
	setDefault(&c.For, defaultBanFor)
	setDefault(&c.Grow, 1)
	setDefault(&c.Max, max(defaultBanMax, c.For))
	setDefault(&c.Quiet, defaultBanQuiet)
	setDefault(&c.Scope, blocklist.ScopeZone.String())
	if c.Spread == nil {
		spread := defaultBanSpread
		c.Spread = &spread
	}
	if c.Rollup != nil {
		rollup := *c.Rollup
		if rollup.IPv6 == nil {
			rollup.IPv6 = defaultRollupIPv6
		}
		c.Rollup = &rollup
	}
	c.People = c.People.resolved()
	return &c
}

// banIndex tells the counts of a zone's ban from those of its limits, of which no zone has
// as many.
const banIndex = 1 << 20

// limit returns what is counted: the ban begins when none is left.
func (b *Ban) limit(zone string, factor int) limiter.Limit {
	return limiter.Limit{
		Zone: zone, Algorithm: limiter.SlidingWindow, Index: banIndex,
		Events: b.Events * int64(factor), Window: time.Duration(b.Window),
		Deferred: banInterval,
	}
}

// tallied is what a ban counts.
type tallied struct {
	requests, refusals bool
	statuses           map[int]bool
	classes            [6]bool // of statuses, by their first digit
}

// parseCount reads what a ban counts.
func parseCount(words []string) (tallied, error) {
	t := tallied{statuses: make(map[int]bool)}
	for _, word := range words {
		status, class, ok := parseStatus(word)
		switch {
		case word == countRequests:
			t.requests = true
		case word == countRefusals:
			t.refusals = true
		case ok && class >= 2:
			t.classes[class] = true
		case ok && status >= 200:
			t.statuses[status] = true
		default:
			return t, fmt.Errorf("must be requests, refusals, a status from 200 to 599, or a class of them such as 4xx, got %q", word)
		}
	}
	if t.requests && len(words) > 1 {
		return t, fmt.Errorf("requests holds all the rest, got %s", strings.Join(words, " "))
	}
	return t, nil
}

// answers reports whether any status counts.
func (t *tallied) answers() bool { return len(t.statuses) > 0 || t.classes != [6]bool{} }

// answer reports whether an answer of this status counts. 0 is that of no answer.
func (t *tallied) answer(status int) bool {
	class := status / 100
	return t.statuses[status] || 0 < class && class < len(t.classes) && t.classes[class]
}

// reason says in words what a ban was made for.
func (b *Ban) reason(events int64) string {
	what := "requests"
	switch {
	case slices.Equal(b.Count, []string{countRefusals}):
		what = "refused requests"
	case !slices.Contains(b.Count, countRequests):
		what = "answers of " + strings.Join(b.Count, ", ")
	}
	return fmt.Sprintf("%d %s in %s", cmp.Or(events, b.Events), what, limiter.ShortDuration(time.Duration(b.Window)))
}
