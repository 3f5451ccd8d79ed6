package observe

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/weirhq/caddy-weir/limiter"
)

// init registers the modules that the tests' configurations name.
func init() {
	caddy.RegisterModule(&probe{})
	caddy.RegisterModule(&catcher{})
}

// probe is an app that does with Events what the app "weir" does.
type probe struct {
	events *Events
	stop   func()
}

// caught holds the probe of the configuration that runs and what its handlers caught.
// Tests that load configurations run one after the other.
var caught atomic.Pointer[catch]

// A catch belongs to one configuration: a handler of an earlier one may still run.
type catch struct {
	probe  *probe
	events chan caddy.Event
	// If hold is not nil handlers say that they are at work, and wait for it.
	hold    chan struct{}
	working chan context.Context
}

func (*probe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "observe_probe", New: func() caddy.Module { return new(probe) }}
}

func (p *probe) Provision(ctx caddy.Context) (err error) {
	caught.Load().probe = p
	p.events, err = NewEvents(ctx)
	return err
}

func (p *probe) Start() error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.events.Run(ctx)
	}()
	p.stop = func() { cancel(); <-done }
	return nil
}

func (p *probe) Stop() error { p.stop(); return nil }

// catcher is an event handler.
type catcher struct{}

func (*catcher) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.observe_catcher", New: func() caddy.Module { return new(catcher) }}
}

func (*catcher) Handle(ctx context.Context, e caddy.Event) error {
	caught := caught.Load()
	if caught.hold != nil {
		caught.working <- ctx
		<-caught.hold
	}
	caught.events <- e
	return nil
}

// start loads a configuration with handlers for these events and returns its observer.
func start(t *testing.T, names ...string) *Events {
	t.Helper()
	caught.Store(&catch{
		events:  make(chan caddy.Event, 2*maxEvents),
		working: make(chan context.Context, 2*maxEvents),
	})
	apps := map[string]any{"observe_probe": struct{}{}}
	if len(names) > 0 {
		apps["events"] = map[string]any{"subscriptions": []any{map[string]any{
			"events": names, "handlers": []any{map[string]any{"handler": "observe_catcher"}},
		}}}
	}
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}},
		"apps":    apps,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return caught.Load().probe.events
}

// next returns the event that is caught next.
func next(t *testing.T) caddy.Event {
	t.Helper()
	select {
	case e := <-caught.Load().events:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event came")
		return caddy.Event{}
	}
}

func TestEvents(t *testing.T) {
	events := start(t, eventExceeded, eventRuleHit)
	zone := refusal(NewZone("api"))
	never, dry, other := zone, zone, zone
	never.Result.Wait = limiter.Never
	other.Blamed = false // a request has one event, however many zones refuse it
	dry.Kind = DryRefused
	rule := Outcome{Request: request(), Kind: Refused, Rule: NewRule("scrapers")}
	marked, aborted, held := rule, rule, rule
	marked.Kind, aborted.Kind, held.Kind = Marked, Aborted, Tarpitted
	aborted.Rule, held.Rule = NewRule("rude"), NewRule("slow")
	for _, o := range []Outcome{zone, dry, other, never, {Kind: Allowed, Zone: zone.Zone}, marked, rule, aborted, held} {
		events.Observe(o)
	}
	address := map[string]any{"remote_ip": "192.0.2.1", "client_ip": "203.0.113.9"}
	for _, want := range []struct {
		name string
		data map[string]any
	}{
		{"rate_limit_exceeded", map[string]any{"zone": "api", "wait": 3 * time.Second}},
		{"rate_limit_exceeded", map[string]any{"zone": "api", "wait": time.Duration(-1)}},
		{"block.rule_hit", map[string]any{"rule": "scrapers", "skipped": int64(0)}},
		{"block.rule_hit", map[string]any{"rule": "rude", "skipped": int64(0)}},
		{"block.rule_hit", map[string]any{"rule": "slow", "skipped": int64(0)}},
	} {
		maps.Copy(want.data, address)
		e := next(t)
		if e.Name() != want.name || !maps.Equal(e.Data, want.data) {
			t.Errorf("got %s %v, want %s %v", e.Name(), e.Data, want.name, want.data)
		}
		if origin := e.Origin().CaddyModule().ID; origin != "observe_probe" {
			t.Errorf("%s comes from %q", want.name, origin)
		}
	}
}

// TestEventsDoNotBlock: handlers that hang cost events, never requests.
func TestEventsDoNotBlock(t *testing.T) {
	events := start(t, eventExceeded)
	caught.Load().hold = make(chan struct{})
	o := refusal(NewZone("api"))
	for range 3 * maxEvents {
		events.Observe(o)
	}
	if n := len(events.queue); n > maxEvents {
		t.Errorf("%d events wait, want at most %d", n, maxEvents)
	}
	close(caught.Load().hold)
	for range maxEvents {
		next(t)
	}
}

// TestEventsStop: a handler that hangs does not hold up a reload, and is told.
func TestEventsStop(t *testing.T) {
	events := start(t, eventExceeded)
	hold := make(chan struct{})
	defer close(hold)
	caught.Load().hold = hold
	events.Observe(refusal(NewZone("api")))
	ctx := <-caught.Load().working
	caught.Load().probe.stop()
	select {
	case <-ctx.Done():
	default:
		t.Error("the handler's context goes on")
	}
}

// TestEventsOfRulesAreSampled: a flood of hits is a few events.
func TestEventsOfRulesAreSampled(t *testing.T) {
	events := start(t, eventRuleHit)
	o := Outcome{Request: request(), Kind: Refused, Rule: NewRule("scrapers")}
	const hits = 4 * every
	for range hits {
		events.Observe(o)
	}
	// Whatever the clock says, every thousandth is an event, and one a second.
	var told int64
	for seen := range hits {
		e := next(t)
		told += 1 + e.Data["skipped"].(int64)
		if told > hits-every {
			return
		}
		if seen > 100 {
			t.Fatal("a flood of hits became a flood of events")
		}
	}
}

// TestEventsNobodyListens: nothing is queued and nothing allocated.
func TestEventsNobodyListens(t *testing.T) {
	for name, events := range map[string]*Events{"no subscriptions": start(t), "others": start(t, "other")} {
		outcomes := []Outcome{refusal(NewZone("api")), {Request: request(), Kind: Refused, Rule: NewRule("scrapers")}}
		n := testing.AllocsPerRun(100, func() {
			for _, o := range outcomes {
				events.Observe(o)
			}
		})
		if n > 0 || len(events.queue) > 0 {
			t.Errorf("%s: %v allocations and %d events, want none", name, n, len(events.queue))
		}
	}
}

// TestEventsBeforeStart: requests that come while apps start do not look at
// subscriptions that are being made.
func TestEventsBeforeStart(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	app := new(caddyevents.App)
	if err := app.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	e := &Events{ctx: ctx, app: app, queue: make(chan event, maxEvents)}
	if err := app.On(eventExceeded, &catcher{}); err != nil {
		t.Fatal(err)
	}
	e.Observe(refusal(NewZone("api")))
	if len(e.queue) != 0 {
		t.Error("an event was emitted before Caddy had started")
	}
	if err := (starter{e}).Handle(t.Context(), caddy.Event{}); err != nil {
		t.Fatal(err)
	}
	e.Observe(refusal(NewZone("api")))
	if len(e.queue) != 1 {
		t.Errorf("%d events wait once Caddy has started, want 1", len(e.queue))
	}
}

func TestKindWords(t *testing.T) {
	var words []string
	for _, k := range []Kind{Allowed, Refused, DryRefused, Exempt, StoreError, Aborted, Tarpitted, Marked, DryMarked} {
		words = append(words, k.String())
	}
	want := strings.Fields("allowed refused dry_refused exempt store_error aborted tarpitted marked dry_marked")
	if !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
}

// An outage has an event at both its ends.
func TestEventsOfStore(t *testing.T) {
	events := start(t, eventDown, eventUp)
	events.StoreDown(errors.New("refused"))
	events.StoreUp(time.Minute)
	for _, want := range []struct {
		name string
		data map[string]any
	}{
		{"store.down", map[string]any{"error": "refused"}},
		{"store.up", map[string]any{"outage": time.Minute}},
	} {
		if e := next(t); e.Name() != want.name || !maps.Equal(e.Data, want.data) {
			t.Errorf("got %s %v, want %s %v", e.Name(), e.Data, want.name, want.data)
		}
	}
	nobody := start(t)
	nobody.StoreDown(errors.New("refused"))
	nobody.StoreUp(time.Minute)
	if n := len(nobody.queue); n > 0 {
		t.Errorf("%d events wait that nobody wants", n)
	}
}
