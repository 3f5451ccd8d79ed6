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
	// for all.
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
	// CountRejected makes refused requests count too, and refuses a client that
	// keeps hammering for at most this long. Default: 0, refusals are not counted.
	CountRejected caddy.Duration `json:"count_rejected,omitempty"`
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
