package config

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// nodes builds several nodes that share a server. Equal configurations would share a store.
func nodes(t *testing.T, n int, server *redistest.Server, more string) []*Shared {
	t.Helper()
	var all []*Shared
	for i := range n {
		all = append(all, build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s", "pool_size": `+
			strconv.Itoa(64-i)+`}`+more+`}`))
	}
	return all
}

// count asks a meter so many times from so many clients at once.
func (m *Meter) count(t *testing.T, clients, times int) (allowed, local int64) {
	t.Helper()
	var passed, stoodIn atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range times {
				d, err := m.Read(httptest.NewRequest("GET", "/", nil))
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					passed.Add(1)
				}
				if len(d.Results) > 0 && d.Results[0].Origin == limiter.Local {
					stoodIn.Add(1)
				}
				m.Free(d)
			}
		})
	}
	wg.Wait()
	return passed.Load(), stoodIn.Load()
}

func zoneOf(name, limit string) string {
	return `{"rate_limits": {"` + name + `": {"key": "x", ` + limit + `}}}`
}

// L91, L94, L103: through a hang and a crash of Redis under the load of 64 clients: once it is known nobody
// waits, nothing grows, and afterwards it is as it was, and two nodes enforce one limit exactly.
func TestOutageUnderCrowd(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	pair := nodes(t, 2, server, "")
	core, logs := observer.New(zap.InfoLevel)
	pair[0].log = observe.NewLog(zap.New(core))
	m := pair[0].meter(t, zoneOf("crowd", `"max_events": 1000000000, "window": "1h"`))
	m.count(t, 64, 20)
	goroutines := runtime.NumGoroutine()

	down, up := "store unavailable", "store available again"
	for round, trouble := range []struct{ begin, end func() }{
		{server.Pause, server.Resume},
		{server.Kill, server.Restart},
	} {
		trouble.begin()
		await(t, "an outage", func() bool {
			m.count(t, 1, 1)
			return logs.FilterMessage(down).Len() == round+1
		})
		start := time.Now()
		_, local := m.count(t, 64, 50)
		if took := time.Since(start); local != 64*50 || took > 5*time.Second {
			t.Errorf("round %d: %d of %d were decided locally, in %s", round, local, 64*50, took)
		}
		if n := runtime.NumGoroutine(); n > goroutines+8 {
			t.Errorf("round %d: %d goroutines, %d before", round, n, goroutines)
		}
		trouble.end()
		await(t, "its end", func() bool { return logs.FilterMessage(up).Len() == round+1 })
	}
	if n := logs.FilterMessage(down).Len() + logs.FilterMessage(up).Len(); n != 4 {
		t.Errorf("%d lines, want two for each outage", n)
	}
	if n := strings.Count(server.Do("CLIENT LIST"), "name="); n > 70 {
		t.Errorf("%d connections", n)
	}

	// The other node has not asked since, and finds Redis with its first request.
	zone := zoneOf("after", `"max_events": 100, "window": "1h"`)
	first, second := pair[0].meter(t, zone), pair[1].meter(t, zone)
	await(t, "both nodes back", func() bool {
		_, a := pair[0].meter(t, zoneOf("probe", `"max_events": 100000, "window": "1h"`)).count(t, 1, 1)
		_, b := pair[1].meter(t, zoneOf("probe", `"max_events": 100000, "window": "1h"`)).count(t, 1, 1)
		return a+b == 0
	})
	var wg sync.WaitGroup
	var passed, stoodIn atomic.Int64
	for _, m := range []*Meter{first, second} {
		wg.Go(func() {
			n, local := m.count(t, 16, 20)
			passed.Add(n)
			stoodIn.Add(local)
		})
	}
	wg.Wait()
	if stoodIn.Load() == 0 && passed.Load() != 100 {
		t.Errorf("two nodes let %d pass, want 100", passed.Load())
	} else if stoodIn.Load() > 0 {
		t.Errorf("%d requests were decided locally", stoodIn.Load())
	}
}

// calls returns how many script calls a server has had.
func calls(server *redistest.Server) (n int) {
	for line := range strings.Lines(server.Do("INFO commandstats")) {
		for _, command := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls="} {
			if rest, ok := strings.CutPrefix(line, command); ok {
				digits, _, _ := strings.Cut(rest, ",")
				more, _ := strconv.Atoi(digits)
				n += more
			}
		}
	}
	return n
}

// A flood of refused requests makes no call, and is counted as refused all the same.
func TestRefusedFlood(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := nodes(t, 1, server, "")[0]
	m := s.meter(t, zoneOf("flood", `"max_events": 5, "window": "1h"`))
	await(t, "a refusal by Redis", func() bool {
		_, _, origins := m.read(t)
		return slices.Equal(origins, []limiter.Origin{limiter.Cached})
	})
	before, start := calls(server), time.Now()
	if allowed, local := m.count(t, 8, 500); allowed+local != 0 {
		t.Errorf("%d allowed, %d decided locally", allowed, local)
	}
	// One call, at most, each time that the cap has passed.
	if n, most := calls(server)-before, 1+int(time.Since(start)/(5*time.Second)); n > most {
		t.Errorf("%d calls for 4000 refused requests, want %d at most", n, most)
	}
}

// What an operator sets free on one node is free on the others at once, by a channel, and
// without it after a few seconds.
func TestResetReachesNodes(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	pair := nodes(t, 2, server, "")
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	for _, s := range pair {
		runs.Go(func() { s.pooled.ListenFreed(ctx, s.pooled.refusals) })
	}
	defer runs.Wait()
	defer cancel()
	await(t, "both nodes listening", func() bool {
		return strings.Contains(server.Do("PUBSUB NUMSUB weir:freed"), "*2") && server.Do("PUBLISH weir:freed x") == ":2"
	})

	zone := zoneOf("told", `"max_events": 1, "window": "1h", "algorithm": "fixed_window"`)
	first, second := pair[0].meter(t, zone), pair[1].meter(t, zone)
	l := &second.zones[0].limits[0]
	remembered := func() {
		t.Helper()
		await(t, "a remembered refusal", func() bool {
			_, _, origins := first.read(t)
			return origins[0] == limiter.Cached
		})
	}
	remembered()
	r := httptest.NewRequest("GET", "/", nil)
	name, _ := second.zones[0].key.appendTo(nil, r, ClientIP(r))
	key := string(name)
	for what, free := range map[string]func() error{
		"reset": func() error { return second.store.Reset(ctx, l, key) },
		"grant": func() error {
			return second.store.Adjust(ctx, []limiter.Change{{Limit: l, Key: key, Delta: -1}})
		},
	} {
		if err := free(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		await(t, "the key free after a "+what, func() bool {
			allowed, _, _ := first.read(t)
			return allowed
		})
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("%s: it took %s, so that nobody was told", what, took)
		}
		remembered()
	}
}

// L103: while Redis is away each of several nodes enforces its share, and says so.
func TestShareOfInstances(t *testing.T) {
	for app, want := range map[string]int64{
		nowhere: 12,
		`{"redis": {"addresses": ["127.0.0.1:1"]}, "instances": 3}`:                            4,
		`{"redis": {"addresses": ["127.0.0.1:1"]}, "instances": 100}`:                          1,
		`{"redis": {"addresses": ["127.0.0.1:1"]}, "instances": 3, "on_store_error": "allow"}`: 50,
	} {
		m := build(t, app).meter(t, zoneOf("share "+strconv.Itoa(len(app)), `"max_events": 12, "window": "1h"`))
		if allowed, local := m.count(t, 1, 50); allowed != want || local != 50 {
			t.Errorf("%s: %d passed, %d by the stand-in; want %d", app, allowed, local, want)
		}
		if want == 50 {
			continue
		}
		d, err := m.Read(httptest.NewRequest("GET", "/", nil))
		if err != nil || d.Results[0].Max != want {
			t.Errorf("%s: of %d, want %d (%v)", app, d.Results[0].Max, want, err)
		}
		m.Free(d)
	}
}

// Of an outage that outlasts a reload the configuration tells that is in use when it ends.
func TestOutageOverReload(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	var logs []*observer.ObservedLogs
	var apps []*Shared
	for range 2 {
		s := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}}`)
		core, lines := observer.New(zap.InfoLevel)
		s.log = observe.NewLog(zap.New(core))
		apps, logs = append(apps, s), append(logs, lines)
		m := s.meter(t, zoneOf("reloaded", `"max_events": 1000, "window": "1h"`))
		if len(apps) == 1 {
			await(t, "an outage", func() bool { m.count(t, 1, 1); return lines.FilterMessage("store unavailable").Len() == 1 })
		}
	}
	apps[0].Close()
	server.Restart()
	await(t, "its end", func() bool { return logs[1].FilterMessage("store available again").Len() == 1 })
	if logs[0].Len() != 1 || logs[1].Len() != 1 {
		t.Errorf("logged %v and %v, want a line each", logs[0].All(), logs[1].All())
	}
}

// Places of in_flight are renewed and given back through the breaker: while Redis is known to be away
// that makes no call, and afterwards it works again.
func TestLeasesSpareRedisThatIsAway(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := nodes(t, 1, server, "")[0]
	m := s.meter(t, zoneOf("seats", `"in_flight": 3`))
	ask := []limiter.Ask{seat("a")}
	for what, call := range map[string]func(context.Context, []limiter.Ask) error{
		"renewal": s.redisLeases.store.Renew, "return": s.redisLeases.store.Release,
	} {
		await(t, "a "+what, func() bool { return call(t.Context(), ask) == nil })
		server.Kill()
		await(t, what+" without a call", func() bool {
			m.count(t, 1, 1)
			err := call(t.Context(), ask)
			return err != nil && strings.Contains(err.Error(), "breaker is open")
		})
		server.Restart()
	}
	await(t, "a call after the outage", func() bool { return s.redisLeases.store.Renew(t.Context(), ask) == nil })
}

// What was remembered of a server is forgotten when it is back: it may have lost what it held.
func TestOutageForgetsRefusals(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := nodes(t, 1, server, "")[0]
	core, lines := observer.New(zap.InfoLevel)
	s.log = observe.NewLog(zap.New(core))
	refused := s.meter(t, zoneOf("remembered", `"max_events": 1, "window": "1h"`))
	await(t, "a remembered refusal", func() bool {
		_, _, origins := refused.read(t)
		return origins[0] == limiter.Cached
	})
	server.Kill()
	others := s.meter(t, zoneOf("others", `"max_events": 1000000, "window": "1h"`))
	await(t, "an outage", func() bool { others.count(t, 1, 1); return lines.FilterMessage("store unavailable").Len() == 1 })
	server.Restart()
	await(t, "its end", func() bool { others.count(t, 1, 1); return lines.FilterMessage("store available again").Len() == 1 })
	s.pooled.refusals.Heard() // or the cap might have passed
	if allowed, _, origins := refused.read(t); !allowed || origins[0] != limiter.Exactly {
		t.Errorf("allowed %t, %v", allowed, origins)
	}
}

// Limits whose requests are settled, or have a feed's price, say so: refusals by them are not remembered for long.
func TestSettledLimits(t *testing.T) {
	s := build(t, `{}`)
	for zone, want := range map[string]bool{
		`"max_events": 9, "window": "1h", "in_flight": 3, "cost": "2"`:                   false,
		`"max_events": 9, "window": "2h", "cost": "2", "settle": {"status": {"304": 1}}`: true,
	} {
		for _, l := range s.meter(t, zoneOf(fmt.Sprint("settled ", want), zone)).zones[0].limits {
			if l.Settled != want {
				t.Errorf("%s: settled is %t, want %t", zone, l.Settled, want)
			}
		}
	}
	feeds := feedMeterOf(t, `"settled feed": {`+hugeFeed+`}`).zones[0].feed
	for factor := 1; factor <= 2; factor++ {
		if l := feeds.limit(feed.Conditional, factor); !l.Settled {
			t.Errorf("a budget of a feed, times %d, is not settled", factor)
		}
	}
}
