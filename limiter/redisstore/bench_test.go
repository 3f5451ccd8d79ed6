package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// BenchmarkTake measures a whole call over the loopback: by algorithm, by how many limits
// are asked in one step, and whether all ask under one key.
func BenchmarkTake(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	store := open(b, s, Options{})
	for _, a := range algorithm.All {
		for _, limits := range []int{1, 3} {
			for _, keys := range []int{1, 10_000} {
				name := "hot"
				if keys > 1 {
					name = "spread"
				}
				b.Run(fmt.Sprintf("%s/%dlimits/%s", a.Name(), limits, name), func(b *testing.B) {
					asks := asksOf(a.Name(), limits, 1_000_000)
					results := make([]limiter.Result, limits)
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						key := strconv.Itoa(i % keys)
						for j := range asks {
							asks[j].Key = key
						}
						if err := store.Take(background, asks, results); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// asksOf returns asks of limits that are alike, each with a state of its own.
func asksOf(name string, limits int, events int64) []limiter.Ask {
	asks := make([]limiter.Ask, limits)
	for i := range asks {
		l := limitOf(name, events)
		if name == limiter.SlidingLog {
			l.Events = min(events, 100_000)
		}
		l.Index = i
		asks[i] = limiter.Ask{Limit: l, Key: "k", Cost: 1, Lease: "lease"}
	}
	return asks
}

// BenchmarkScriptCost measures what a step costs on the server, by its own count of
// microseconds a call: as a multiple of an empty script (x-empty), of an empty script that is
// given the same keys and arguments (x-bare), and of one that does no more than ask the time,
// and get and set each key (x-commands). States are well filled. The median of interleaved
// rounds is reported.
func BenchmarkScriptCost(b *testing.B) {
	s := redistest.Start(b, redistest.Options{})
	store := open(b, s, Options{})
	// The least, a usual, and the largest state of a sliding window.
	mixed := []limiter.Ask{}
	for i, events := range []int64{5, 100, 1_000_000} {
		mixed = append(mixed, asksOf(limiter.SlidingWindow, 3, events)[i])
	}
	// Two are in a steady state: what one client asks passes, as events leave the window.
	mixed[0].Limit.Window, mixed[1].Limit.Window = 50*time.Microsecond, time.Millisecond
	scenes := []struct {
		name string
		asks []limiter.Ask
	}{{"sliding_window/mixed/3limits", mixed}}
	for _, a := range algorithm.All {
		if a.Name() == limiter.MinInterval {
			continue
		}
		for _, limits := range []int{1, 3} {
			scenes = append(scenes, struct {
				name string
				asks []limiter.Ask
			}{fmt.Sprintf("%s/%dlimits", a.Name(), limits), asksOf(a.Name(), limits, 1_000_000)})
		}
	}
	for _, c := range scenes {
		b.Run(c.name, func(b *testing.B) { scriptCost(b, store, c.asks) })
	}
}

func scriptCost(b *testing.B, store *Store, asks []limiter.Ask) {
	const rounds, calls = 15, 400
	s, keys, packed := command(b, store, asks)
	fill(b, store, asks)
	empty := newScript("return 0")
	commands := newScript(`redis.call('time')
for _, key in ipairs(KEYS) do redis.call('get', key) end
for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'px', 60000) end
return ''`)
	others := make([]string, len(keys))
	for i, key := range keys {
		others[i] = key[:len(key)-1] + "~"
	}
	var cost, none, bare, called [rounds]float64
	for b.Loop() {
		for i := range rounds {
			none[i] = usecPerCall(b, store, empty, nil, nil, nil, calls)
			bare[i] = usecPerCall(b, store, empty, keys, packed, nil, calls)
			called[i] = usecPerCall(b, store, commands, others, packed, nil, calls)
			cost[i] = usecPerCall(b, store, s, keys, packed, asks, calls)
		}
	}
	slices.Sort(none[:])
	slices.Sort(bare[:])
	slices.Sort(called[:])
	slices.Sort(cost[:])
	median := cost[rounds/2]
	b.ReportMetric(median, "µs/step")
	b.ReportMetric(median/none[rounds/2], "x-empty")
	b.ReportMetric(median/bare[rounds/2], "x-bare")
	b.ReportMetric(median/called[rounds/2], "x-commands")
	b.ReportMetric(none[rounds/2], "µs-empty")
	b.ReportMetric(0, "ns/op")
}

// command returns what Take would send.
func command(b *testing.B, store *Store, asks []limiter.Ask) (*script, []string, []byte) {
	c := callOf(b, store, asks)
	return takeScript(c.needed), c.keys, c.packed
}

// fill spends most of each limit in many steps, from its beginning.
func fill(b *testing.B, store *Store, asks []limiter.Ask) {
	for _, a := range asks {
		if err := store.Reset(background, a.Limit, a.Key); err != nil {
			b.Fatal(err)
		}
		a.Cost = max(a.Limit.Events/75, 1)
		for range 60 {
			if err := store.Take(background, []limiter.Ask{a}, make([]limiter.Result, 1)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// usecPerCall runs a script many times and returns what the server says of it. If it answers
// asks, nearly all have to be allowed, since a refusal costs less.
func usecPerCall(b *testing.B, store *Store, s *script, keys []string, packed []byte, asks []limiter.Ask, calls int) float64 {
	run := func() *redis.Cmd { return store.run(background, s, keys, packed) }
	if len(keys) == 0 { // which a store never has
		if err := only(store).ScriptLoad(background, s.text).Err(); err != nil {
			b.Fatal(err)
		}
		run = func() *redis.Cmd { return only(store).EvalSha(background, s.sha, nil) }
	}
	if err := run().Err(); err != nil {
		b.Fatal(err)
	}
	if err := only(store).ConfigResetStat(background).Err(); err != nil {
		b.Fatal(err)
	}
	refused, results := 0, make([]limiter.Result, len(asks))
	for range calls {
		reply := run()
		if err := reply.Err(); err != nil {
			b.Fatal(err)
		}
		if asks == nil {
			continue
		}
		readAll(b, reply.Val().(string), asks, results)
		if slices.ContainsFunc(results, func(r limiter.Result) bool { return !r.Allowed }) {
			refused++
		}
	}
	if refused > calls/10 {
		b.Fatalf("%d of %d steps were refused", refused, calls)
	}
	info, err := only(store).Info(background, "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, ok := strings.Cut(info, "cmdstat_evalsha:")
	_, rest, ok2 := strings.Cut(rest, "usec_per_call=")
	number, _, _ := strings.Cut(rest, ",")
	usec, err := strconv.ParseFloat(number, 64)
	if !ok || !ok2 || err != nil {
		b.Fatalf("no figures in %q", info)
	}
	return usec
}
