// Package config holds what a user may write: every block's fields with their JSON
// names, docs and defaults, and how they are validated and built into what serves.
package config

import (
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter/memstore"
)

// App is the configuration of the app "weir", the `weir` block of a Caddyfile's
// global options: what all rate_limit and block handlers share.
type App struct {
	// Redis is where counts are kept so that several Caddy instances enforce one
	// limit. Default: in this instance's memory.
	Redis *Redis `json:"redis,omitempty"`
	// OnStoreError says what decides while the store cannot: `local` (the limits
	// are enforced in memory, per instance), `allow` or `deny`. Default: `local`.
	OnStoreError string `json:"on_store_error,omitempty"`
	// Instances is how many Caddys share the Redis. While it is away and `local` decides,
	// each enforces its share of every limit, the limit divided by this number; 1 to
	// 10,000. Default: 1, the whole limit.
	Instances int `json:"instances,omitempty"`
	// MaxKeys bounds the keys held in memory, 1 to 1,000,000,000. Default: 1,000,000.
	MaxKeys int `json:"max_keys,omitempty"`
	// HashKeys is `on` (what leaves the process is a keyed hash) or `off` (keys
	// are stored in clear). Default: `on`.
	HashKeys string `json:"hash_keys,omitempty"`
	// Secret keys the hash. Default: a random one, shared through Redis. May be a
	// placeholder such as {env.WEIR_SECRET}.
	Secret string `json:"secret,omitempty"`
	// IPv4Prefix is how many bits of an IPv4 address make a client, 1 to 32.
	// Default: 32.
	IPv4Prefix int `json:"ipv4_prefix,omitempty"`
	// IPv6Prefix is how many bits of an IPv6 address make a client, 1 to 128.
	// Default: 64.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`
	// Headers are the rate limit headers that answers carry: `legacy`
	// (X-RateLimit-*), `draft` (RateLimit, RateLimit-Policy), `both` or `off`.
	// Default: `both`.
	Headers string `json:"headers,omitempty"`
	// Tarpit bounds what rules with the action `tarpit` hold up.
	Tarpit *Tarpit `json:"tarpit,omitempty"`
	// Block is the shared block list.
	Block *SharedBlock `json:"block,omitempty"`
}

// What App's zero values stand for.
const (
	defaultOnStoreError = local
	defaultMaxKeys      = memstore.DefaultMaxKeys
	defaultIPv4Prefix   = 32
	defaultIPv6Prefix   = 64
	defaultHeaders      = "both"
)

// mostInstances is the highest number of instances that share a Redis.
const mostInstances = 10_000

// mostKeys is the highest bound of keys, more than any memory holds.
const mostKeys = 1_000_000_000

const (
	on  = "on"
	off = "off"
)

// Validate says everything that is wrong with the configuration, in one error.
func (a *App) Validate() error {
	r := newReport()
	a.check(r)
	return r.err()
}

func (a *App) check(r report) {
	if a.Redis != nil {
		a.Redis.check(r.in("redis"))
	}
	checkOnStoreError(r, a.OnStoreError)
	checkHeaders(r, a.Headers)
	checkPrefixes(r, a.IPv4Prefix, a.IPv6Prefix)
	if a.Tarpit != nil {
		a.Tarpit.check(r.in("tarpit"))
	}
	if a.Block != nil {
		a.Block.check(r.in("block"))
	}
	r.in("hash_keys").oneOf(a.HashKeys, on, off)
	r.in("instances").between(a.Instances, 1, mostInstances)
	if a.Instances > 0 && a.Redis == nil {
		r.in("instances").warn("has no use without redis: every limit is this instance's own")
	}
	if a.MaxKeys < 0 || a.MaxKeys > mostKeys {
		r.in("max_keys").problemf("must be between 1 and %d, got %d", mostKeys, a.MaxKeys)
	}
	if a.Secret != "" && a.HashKeys == off {
		r.in("secret").problemf("has no use while hash_keys is off")
	}
	adviseSecret(r.in("secret"), a.Secret)
}

// resolved returns the configuration with every default filled in and every
// placeholder replaced.
func (a *App) resolved(r report) App {
	c := *a
	setDefault(&c.OnStoreError, defaultOnStoreError)
	setDefault(&c.MaxKeys, defaultMaxKeys)
	setDefault(&c.HashKeys, on)
	setDefault(&c.IPv4Prefix, defaultIPv4Prefix)
	setDefault(&c.IPv6Prefix, defaultIPv6Prefix)
	setDefault(&c.Headers, defaultHeaders)
	c.Secret = replace(r.in("secret"), c.Secret)
	c.Block = a.Block.resolved(r.in("block"))
	if c.Redis != nil {
		redis := c.Redis.resolved(r.in("redis"))
		c.Redis = &redis
	}
	return c
}

// replace replaces placeholders of the process: {env.*}, {file.*} and the like. One
// that is unknown or empty is a problem: a password that silently becomes "" is not
// what anybody means.
func replace(r report, text string) string {
	out, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	r.problem(err)
	return out
}

// adviseSecret warns about a secret that stands in clear in the configuration.
func adviseSecret(r report, text string) {
	if text != "" && !strings.Contains(text, "{") {
		r.warn("a secret stands in the configuration; {env.NAME} or {file.PATH} keeps it out")
	}
}

func checkOnStoreError(r report, word string) {
	r.in("on_store_error").oneOf(word, local, allow, deny)
}

func checkHeaders(r report, word string) {
	r.in("headers").oneOf(word, "legacy", "draft", "both", off)
}

func checkPrefixes(r report, v4, v6 int) {
	r.in("ipv4_prefix").between(v4, 1, 32)
	r.in("ipv6_prefix").between(v6, 1, 128)
}

// checkStatus checks the status of a refusal.
func checkStatus(r report, status int) {
	r.in("status").between(status, 400, 599)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
