package config

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Zone is one named set of limits with the requests and keys they apply to.
type Zone struct {
	// MatcherSets select the requests of the zone. Default: all.
	MatcherSets caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`
	// Key is whose budget a request spends: one or several parts with
	// placeholders, kept apart. A string stands for one part. Default: one budget
	// for all; in a zone for feeds each client's own, in one for previews that of
	// the family of programs.
	Key Parts `json:"key,omitempty"`
	// Limits of which every one must hold.
	Limits []Rate `json:"limits,omitempty"`
	// MaxEvents with Window, Algorithm and Burst is one limit more.
	MaxEvents *int64         `json:"max_events,omitempty"`
	Window    caddy.Duration `json:"window,omitempty"`
	// Algorithm of the limits that name none. Default: `sliding_window`.
	Algorithm string `json:"algorithm,omitempty"`
	// Burst of the limits that name none: how much may come at once
	// (token_bucket). Default: the limit's events.
	Burst int64 `json:"burst,omitempty"`
	// MinInterval is the least distance between two requests of a key. Default: none.
	MinInterval caddy.Duration `json:"min_interval,omitempty"`
	// InFlight is the most requests of a key at the same time, at most 10,000.
	// Default: any number.
	InFlight int64 `json:"in_flight,omitempty"`
	// Cost of a request: a whole number or a placeholder. Default: 1.
	Cost Cost `json:"cost,omitempty"`
	// Settle corrects what a request was charged by what became of it.
	Settle *Settle `json:"settle,omitempty"`
	// Feed makes the zone one for readers of feeds.
	Feed *Feed `json:"feed,omitempty"`
	// Previews makes the zone one for the programs that show previews of links.
	Previews *Previews `json:"previews,omitempty"`
	// CountRejected makes refused requests count too, and refuses a client that
	// keeps hammering for at most this long. Default: 0, refusals are not counted.
	CountRejected caddy.Duration `json:"count_rejected,omitempty"`
	// Lease lets a node take up to that many events of a busy key at a time from Redis
	// and spend them without asking again, 2 to 1,000,000. Default: 0, each request asks.
	Lease int64 `json:"lease,omitempty"`
	// CountAfter makes the zone decide by what this node knows, count after the
	// response, and tell the store at this interval: 10ms to 1h. Default: 0, each
	// request asks the store and is counted when it comes.
	CountAfter caddy.Duration `json:"count_after,omitempty"`
	// OnEmptyKey says what becomes of a request whose key is empty: `skip`,
	// `client_ip` or `reject`. Default: `client_ip`.
	OnEmptyKey string `json:"on_empty_key,omitempty"`
	// IPv4Prefix and IPv6Prefix as in the app. Default: what the app says.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`
	// ExemptRanges are addresses and CIDR ranges of clients that are not limited.
	ExemptRanges []string `json:"exempt_ranges,omitempty"`
	// Exempt selects requests that are not limited.
	Exempt caddyhttp.RawMatcherSets `json:"exempt,omitempty" caddy:"namespace=http.matchers"`
	// Ban keeps a key out for a while that has done something too often.
	Ban *Ban `json:"ban,omitempty"`
	// DryRun makes the zone count and report, but never refuse.
	DryRun bool `json:"dry_run,omitempty"`
}

// Rate is one limit of a zone.
type Rate struct {
	// Events allowed in each Window.
	Events int64          `json:"events"`
	Window caddy.Duration `json:"window"`
	// Burst and Algorithm. Default: the zone's.
	Burst     int64  `json:"burst,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}
