package main

import (
	"runtime"
	"slices"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/peer"
	"github.com/weirhq/caddy-weir/limiter"
)

// This file says what is compared, under what load, and how often. To change a comparison,
// change a table here.

// parts are what there is to measure, by their words on the command line.
var parts = []part{
	{
		name: "http", says: "a Caddy with this module beside one without, under wrk",
		normal: effort{15, time.Second}, quick: effort{1, time.Second},
		names: httpNames(false), cost: httpCost, run: runHTTP(false), uses: caddys,
	},
	{
		name: "http-more", says: "the same with other handlers, without Caddy's metrics, and beside fixed header fields",
		normal: effort{15, time.Second}, quick: effort{1, time.Second},
		names: httpNames(true), cost: httpCost, run: runHTTP(true), uses: caddys,
	},
	{
		name: "memory", says: "one decision in memory, beside other libraries",
		normal: effort{15, 80 * time.Millisecond}, quick: effort{2, 20 * time.Millisecond},
		names: contestNames(memoryContests), cost: contestCost(memoryPeers), run: runMemory, uses: modules(memoryPeers),
	},
	{
		name: "redis", says: "one decision on Redis, beside other libraries, a bare script and PING",
		normal: effort{7, 160 * time.Millisecond}, quick: effort{2, 40 * time.Millisecond},
		names: contestNames(redisContests), cost: contestCost(redisPeers), run: runRedis, uses: modules(redisPeers),
	},
	{
		name: "accuracy", says: "the most that each lets through in any window",
		normal: effort{1, accuracyWindow}, quick: effort{1, accuracyWindow},
		names: shapeNames, cost: accuracyCost, run: runAccuracy, uses: modules(memoryPeers, redisPeers),
	},
	{
		name: "outage", says: "what requests meet while Redis is down, slow, or replaced",
		normal: effort{1, 4 * time.Second}, quick: effort{1, time.Second},
		names: outageNames, cost: outageCost, run: runOutage, uses: caddys,
	},
	{
		name: "feeds", says: "a week of a blog's subscribers, with a zone for feeds and without; rounds have other seeds",
		normal: effort{1, 7 * 24 * time.Hour}, quick: effort{1, 2 * 24 * time.Hour},
		names: feedsNames, cost: feedsCost, run: runFeeds, uses: caddys[:1],
	},
}

// peersParts are the parts that are measured unless others are named.
var peersParts = []string{"http", "memory", "redis", "accuracy"}

// An effort is how many rounds a scene has, in each of which all sides take their turn, and how
// long a turn lasts. For an outage it is how long that is.
type effort struct {
	rounds int
	length time.Duration
}

// memoryPeers are the limiters in memory. The first one is what the others are compared with.
var memoryPeers = []peer.Peer{
	{Name: "weir", Open: peer.WeirMemory(limiter.SlidingWindow)},
	{Name: "weir token_bucket", Open: peer.WeirMemory(limiter.TokenBucket)},
	{Name: "sethvargo/go-limiter", Module: "github.com/sethvargo/go-limiter", Open: peer.GoLimiter},
	{Name: "throttled", Module: "github.com/throttled/throttled/v2", Open: peer.ThrottledMemory},
	{Name: "ulule/limiter", Module: "github.com/ulule/limiter/v3", Open: peer.UluleMemory},
	{Name: "go-chi/httprate", Module: "github.com/go-chi/httprate", Open: peer.HTTPRate},
	{Name: "x/time/rate, a map", Module: "golang.org/x/time", Open: peer.XTime},
}

// redisPeers are the limiters on Redis, and what they are measured by. All have go-redis'
// defaults save this module, which has its own.
var redisPeers = []peer.Peer{
	{Name: "weir on Redis", Open: peer.WeirRedis(limiter.SlidingWindow)},
	{Name: "weir on Redis, token_bucket", Open: peer.WeirRedis(limiter.TokenBucket)},
	{Name: bareScript, Module: "github.com/redis/go-redis/v9", Open: peer.EvalSha(0)},
	{Name: "EVALSHA, pool of 64", Open: peer.EvalSha(64)},
	{Name: "redis_rate", Module: "github.com/go-redis/redis_rate/v10", Open: peer.RedisRate},
	{Name: "ulule/limiter on Redis", Open: peer.UluleRedis},
	{Name: "throttled on Redis", Open: peer.ThrottledRedis},
	{Name: onlyPing, Open: peer.Ping},
}

// Peers that are treated apart: PING decides nothing.
const (
	bareScript = "EVALSHA"
	onlyPing   = "PING"
)

// The limits that peers are given: two that nobody reaches, of which under the second a key is
// kept all the while even if it is a single time stamp; one that all have reached; and one under which such a key
// is kept for a while.
var (
	wideSetup  = peer.Setup{Events: 1_000_000_000, Window: time.Hour}
	longSetup  = peer.Setup{Events: 1_000_000, Window: 365 * 24 * time.Hour}
	tightSetup = peer.Setup{Events: 1, Window: 365 * 24 * time.Hour}
	sizeSetup  = peer.Setup{Events: 100, Window: time.Hour}
)

// A contest is a load under which all peers of a list take turns.
type contest struct {
	name     string
	setup    peer.Setup
	clients  int
	keys     int
	inOrder  bool          // keys are asked about in the order in which they came first, else by chance
	distance time.Duration // added to each round trip
}

// memoryContests: one goroutine and one a processor; one key, and many, in both orders.
func memoryContests() []contest {
	var all []contest
	for _, clients := range []int{1, runtime.GOMAXPROCS(0)} {
		all = append(all,
			contest{setup: wideSetup, clients: clients, keys: 1},
			contest{setup: longSetup, clients: clients, keys: many},
			contest{setup: longSetup, clients: clients, keys: many, inOrder: true},
		)
	}
	all = append(all, contest{setup: tightSetup, clients: runtime.GOMAXPROCS(0), keys: many})
	return named("memory", all)
}

// redisContests: from a lone client to a crowd, near and far.
func redisContests() []contest {
	var all []contest
	for _, distance := range []time.Duration{0, time.Millisecond} {
		for _, clients := range []int{1, 8, 64, 512} {
			all = append(all, contest{setup: wideSetup, clients: clients, keys: 10_000, distance: distance})
		}
		all = append(all, contest{setup: tightSetup, clients: 64, keys: 10_000, distance: distance})
	}
	return named("redis", all)
}

// named gives contests names that say what they are.
func named(part string, all []contest) []contest {
	for i := range all {
		c := &all[i]
		c.name = part + "/" + word(count(c.clients, "client")) + "/" + word(count(c.keys, "key"))
		if c.distance > 0 {
			c.name += "/" + c.distance.String() + "_away"
		}
		if c.inOrder {
			c.name += "/in_order"
		}
		if c.setup == tightSetup {
			c.name += "/refused"
		}
	}
	return all
}

// An httpScene is Caddys that differ by a few lines, under one load. The first side is what the
// others are compared with.
type httpScene struct {
	name    string
	sides   []side
	keys    int  // clients that take turns, told apart by X-Forwarded-For
	metrics bool // Caddy's own, on all sides; the module's are always on
	refused bool // every answer has an error status
	close   bool // a connection for each request
	more    bool // belongs to http-more
}

// A side is one configuration of a scene.
type side struct {
	name     string
	handlers string
	redis    bool
	goal     float64 // the ratio that is not to be exceeded; 0: none
}

const (
	file    = "root {$SITE}\n\tfile_server"
	respond = "respond \"hello\""
	refuse  = "respond \"Too Many Requests. Try again in 3600 s.\" 429"
)

const (
	wide  = "1000000000/1h"
	tight = "1/365d"
)

// fields sets what rate_limit sets, but always the same, by Caddy's own header directive.
const fields = `header {
		X-RateLimit-Limit 1000000000
		X-RateLimit-Remaining 999999999
		X-RateLimit-Reset 3600
		RateLimit-Policy "\"all\";q=1000000000;w=3600"
		RateLimit "\"all\";r=999999999;t=3600"
	}
	`

// told is the same of a refusal.
const told = `header {
		Cache-Control no-store
		Retry-After 31536000
		X-RateLimit-Limit 1
		X-RateLimit-Remaining 0
		X-RateLimit-Reset 31536000
		RateLimit-Policy "\"all\";q=1;w=31536000"
		RateLimit "\"all\";r=0;t=31536000"
	}
	`

const many = 100_000

// httpScenes lists all of them. A quick run has fewer keys.
func httpScenes(many int) []httpScene {
	var all []httpScene
	memory := func(site, base string, goals ...float64) []side {
		return []side{
			{name: "plain", handlers: base},
			{name: "memory, headers off", handlers: limit(wide, "headers off") + site, goal: goals[0]},
			{name: "memory, both headers", handlers: limit(wide) + site, goal: goals[1]},
		}
	}
	redis := func(rate, site string, goal float64) side {
		return side{name: "Redis, both headers", handlers: limit(rate) + site, redis: true, goal: goal}
	}
	for _, keys := range []int{1, many} {
		off := side{name: "Redis, headers off", handlers: limit(wide, "headers off") + file, redis: true}
		all = append(all,
			httpScene{name: "allowed/file", sides: append(memory(file, file, 1.03, 1.05), off, redis(wide, file, 0)), keys: keys, metrics: true},
			httpScene{name: "allowed/file", sides: append(slices.Delete(memory(file, file, 1.03, 1.05), 1, 2), redis(wide, file, 0)), keys: keys, metrics: true, close: true},
		)
		for _, closing := range []bool{false, true} {
			all = append(all, httpScene{
				name: "refused", keys: keys, close: closing, refused: true, metrics: true,
				sides: []side{
					{name: "respond 429", handlers: refuse},
					{name: "memory, both headers", handlers: limit(tight) + respond, goal: 1.15},
					redis(tight, respond, 1.15),
				},
			})
		}
		for _, metrics := range []bool{false, true} {
			all = append(all, httpScene{name: "allowed/respond", sides: memory(respond, respond, 1.03, 1.05), keys: keys, metrics: metrics, more: true})
		}
		all = append(all, httpScene{name: "allowed/file", sides: memory(file, file, 1.03, 1.05), keys: keys, more: true})
	}
	beside := memory(file, fields+file, 0, 0)
	beside[0].name = "plain, five fixed fields"
	all = append(all, httpScene{name: "allowed/file/beside_header", sides: beside, keys: 1, metrics: true, more: true})
	all = append(all, httpScene{
		name: "refused/beside_header", keys: 1, refused: true, metrics: true, more: true,
		sides: []side{
			{name: "respond 429, seven fixed fields", handlers: told + refuse},
			{name: "memory, both headers", handlers: limit(tight) + respond},
			redis(tight, respond, 0),
		},
	})
	for i := range all {
		all[i].complete()
	}
	return all
}

// shapes are the kinds of traffic that limits are tried with, each by one client for each peer. Time is
// counted in windows; the limit is 1 for each.
var shapes = []shape{
	{"boundary burst", "one request opens a window, the whole limit comes at its end, and twice the limit as the next begins", boundary},
	{"burst, then flood", "the whole limit at the end of a window, then five times the limit without end", burstAndFlood},
	{"Poisson", "one and a half times the limit, by chance", poisson},
	{"on and off", "four times the limit for half a window, then nothing for half a window", onAndOff},
}

// Each shape lasts some windows. Every peer has the same limit.
const (
	accuracyEvents  = 50
	accuracyWindow  = time.Second
	accuracyWindows = 4
)

// What the outage is measured under: clients that ask at their times, whatever the answers. Each
// key's clients are spread over both nodes, and ask for twice what its limit allows.
const (
	outageClients = 64
	outageKeys    = 16
	outageRate    = 25 // requests a second of each client
	outageLimit   = 50 // events in outageWindow for each key
	outageWindow  = time.Second
	outageTimeout = 50 * time.Millisecond
)

// How many subscribers the feed has whose week is played. Who they are stands in week/kinds.go.
const (
	feedsSubscribers      = 10_000
	feedsQuickSubscribers = 500
)

// outages are the ways in which Redis is lost, and comes back.
var outages = []outage{
	{"frozen", "the server is stopped by a signal, and goes on", single, frozen},
	{"killed", "the server dies, and is started again some seconds later", single, killed},
	{"restarted", "the server is shut down and started again at once", single, restarted},
	{"slowed", "every round trip takes 200 ms", single, slowed},
	{"cluster", "one of three masters is frozen; its replica takes over", clustered, masterFrozen},
	{"partition", "a master and its replica are frozen, and go on", clustered, shardFrozen},
	{"sentinel", "the master dies; the sentinels name another", sentinels, masterKilled},
}
