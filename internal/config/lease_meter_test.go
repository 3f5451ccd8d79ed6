package config

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// A visit is a request that may be under way.
type visit struct {
	allowed bool
	wait    time.Duration
	blamed  string // the algorithm that refuses
	nearest string // the one that headers tell of
	origins []limiter.Origin
	leases  *Leases
}

// enter begins a request.
func (m *Meter) enter(t *testing.T, client string, header ...string) visit {
	t.Helper()
	d, err := m.Read(from(client, "/", header...))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free(d)
	v := visit{allowed: d.Allowed, wait: d.Wait, leases: d.Leases}
	if d.Blamed >= 0 {
		v.blamed = d.Asks[d.Blamed].Limit.Algorithm
	}
	if d.Nearest >= 0 {
		v.nearest = d.Asks[d.Nearest].Limit.Algorithm
	}
	for _, r := range d.Results {
		v.origins = append(v.origins, r.Origin)
	}
	if !d.Allowed && d.Leases != nil {
		t.Error("a refused request holds leases")
	}
	return v
}

// leave ends a request.
func (v visit) leave(t *testing.T) {
	t.Helper()
	nothing := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	if err := v.leases.Serve(nil, from("203.0.113.1", "/"), nothing); err != nil {
		t.Error(err)
	}
}

func TestInFlight(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"seats": {"key": "{http.vars.client_ip}", "in_flight": 2}}}`)
	first, second := m.enter(t, "203.0.113.1"), m.enter(t, "203.0.113.1")
	third := m.enter(t, "203.0.113.1")
	if !first.allowed || !second.allowed || third.allowed {
		t.Fatalf("%+v, %+v, %+v: want the third refused", first, second, third)
	}
	if third.wait != limiter.InFlightWait || third.blamed != limiter.InFlight || third.nearest != "" {
		t.Errorf("refused with %+v", third)
	}
	other := m.enter(t, "203.0.113.2")
	if !other.allowed {
		t.Error("another client was refused")
	}
	second.leave(t)
	fourth := m.enter(t, "203.0.113.1")
	if !fourth.allowed {
		t.Error("a place that was left is not free")
	}
	for _, v := range []visit{first, fourth, other} {
		v.leave(t)
	}
}

// A place is taken with all that the other limits are charged, or not at all.
func TestInFlightWithOtherLimits(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {
		"a": {"key": "x", "in_flight": 1},
		"b": {"key": "x", "in_flight": 5, "max_events": 2, "window": "1h", "count_rejected": "2h"}}}`)
	first := m.enter(t, "203.0.113.1")
	if !first.allowed || first.nearest != limiter.SlidingWindow || len(first.leases.held) != 2 {
		t.Fatalf("%+v", first)
	}
	for range 3 {
		if v := m.enter(t, "203.0.113.1"); v.allowed || v.blamed != limiter.InFlight {
			t.Errorf("beside another request: %+v", v)
		}
	}
	first.leave(t)
	second := m.enter(t, "203.0.113.1")
	if !second.allowed {
		t.Error("refusals for want of a place were charged to the other limit")
	}
	second.leave(t)
	if v := m.enter(t, "203.0.113.1"); v.allowed || v.blamed != limiter.SlidingWindow {
		t.Errorf("above the other limit: %+v", v)
	}
	z := m.zones[0]
	if got := placesLeft(t, m, z); got != 1 {
		t.Errorf("the other limit's refusal took a place: %d left", got)
	}
}

// placesLeft looks at the first limit of a zone with key x.
func placesLeft(t *testing.T, m *Meter, z *zoneMeter) int64 {
	t.Helper()
	var r [1]limiter.Result
	if err := m.store.Take(t.Context(), []limiter.Ask{{Limit: &z.limits[0], Key: "x"}}, r[:]); err != nil {
		t.Fatal(err)
	}
	return r[0].Remaining
}

// A dry run counts who is in and who would have been refused, and refuses nobody.
func TestInFlightDryRun(t *testing.T) {
	s := build(t, `{}`)
	m := s.meter(t, `{"rate_limits": {"trial": {"key": "x", "in_flight": 2, "dry_run": true}}}`)
	var seen outcomes
	s.Observers = observe.Observers{&seen}
	var visits []visit
	for range 3 {
		v := m.enter(t, "203.0.113.1")
		if !v.allowed {
			t.Error("a dry run refused")
		}
		visits = append(visits, v)
	}
	if got := strings.Join(seen, ", "); got != "trial allowed, trial allowed, trial dry_refused" {
		t.Errorf("seen: %s", got)
	}
	for _, v := range visits {
		v.leave(t)
	}
	if got := placesLeft(t, m, m.zones[0]); got != 2 {
		t.Errorf("%d places left, want 2", got)
	}
}

// Who is exempt, or pays nothing, takes no place, and is let in though there is none.
func TestInFlightForNothing(t *testing.T) {
	m := build(t, `{}`).meter(t, `{"rate_limits": {"few": {"key": "x", "in_flight": 1,
		"exempt_ranges": ["192.0.2.0/24"], "cost": "{http.request.header.X-Cost}"}}}`)
	in := m.enter(t, "203.0.113.1", "X-Cost", "9")
	if !in.allowed || in.leases == nil {
		t.Fatalf("%+v", in)
	}
	for _, v := range []visit{m.enter(t, "192.0.2.1"), m.enter(t, "203.0.113.1", "X-Cost", "0")} {
		if !v.allowed || v.leases != nil {
			t.Errorf("%+v", v)
		}
		v.leave(t)
	}
	in.leave(t)
}

const seats = `{"rate_limits": {"seats": {"key": "x", "in_flight": 3}}}`

// While Redis is away places are those of this node, and when it is back neither side has
// lost one.
func TestInFlightOutage(t *testing.T) {
	for _, word := range []string{local, allow, deny} {
		t.Run(word, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			m := build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "1s"}, "on_store_error": "`+word+`"}`).meter(t, seats)
			before := m.enter(t, "203.0.113.1")
			if !before.allowed || !slices.Equal(before.origins, []limiter.Origin{limiter.Exactly}) {
				t.Fatalf("%+v", before)
			}
			server.Pause()
			// This one is taken by Redis once it is awake, if not by then given up.
			during := m.enter(t, "203.0.113.1")
			if during.allowed == (word == deny) || !slices.Equal(during.origins, []limiter.Origin{limiter.Local}) {
				t.Errorf("during the outage: %+v", during)
			}
			if (during.leases != nil) != (word == local) {
				t.Errorf("during the outage: leases %+v", during.leases)
			}
			server.Resume()
			await(t, "Redis is back", func() bool {
				v := m.enter(t, "203.0.113.1")
				v.leave(t)
				return slices.Equal(v.origins, []limiter.Origin{limiter.Exactly})
			})
			await(t, "only the first request has a place", func() bool { return placesLeft(t, m, m.zones[0]) == 2 })
			before.leave(t)
			during.leave(t)
			await(t, "no request has a place", func() bool { return placesLeft(t, m, m.zones[0]) == 3 })
			if n := len(m.shared.memoryLeases.held); n != 0 {
				t.Errorf("%d leases are still held in memory", n)
			}
		})
	}
}

// A reload moves no request that is under way and loses none: what it holds, it holds on
// under the new configuration, though that has another connection to the same Redis.
func TestInFlightReload(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	app := func(timeout string) *Shared {
		return build(t, `{"redis": {"addresses": ["`+server.Addr()+`"], "timeout": "`+timeout+`"}}`)
	}
	old := app("1s")
	m := old.meter(t, seats)
	first, second := m.enter(t, "203.0.113.1"), m.enter(t, "203.0.113.1")
	young := app("2s")
	old.Close()
	n := young.meter(t, seats)
	if left := placesLeft(t, n, n.zones[0]); left != 1 {
		t.Errorf("%d places left after the reload, want 1", left)
	}
	renewed := time.Now()
	old.redisLeases.mu.Lock()
	for one := range old.redisLeases.held {
		one.until = renewed // it is due
	}
	old.redisLeases.mu.Unlock()
	old.redisLeases.renew()
	old.redisLeases.mu.Lock()
	for one := range old.redisLeases.held {
		if !one.until.After(renewed) {
			t.Error("a lease was not renewed: the old store does not answer any more")
		}
	}
	old.redisLeases.mu.Unlock()
	first.leave(t)
	second.leave(t)
	await(t, "both places are free", func() bool { return placesLeft(t, n, n.zones[0]) == 3 })
}
