package observe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/layer"
)

// registry returns a registry like the one that Caddy makes for each configuration,
// with our metrics.
func registry(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := Register(reg); err != nil {
		t.Fatal(err)
	}
	return reg
}

// value returns the number of the series with these labels, written as `name=value`
// in the order of names; -1 if there is none.
func value(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetName()+"="+l.GetValue())
			}
			if slices.Equal(got, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

// TestMetricNames holds the list of metrics, which operators build dashboards on: name,
// type and labels, with their values where those are ours.
func TestMetricNames(t *testing.T) {
	reg := registry(t)
	NewZone("api")
	NewRule("scrapers")
	NewBans("api")
	NewAggregators("api")
	NewFeeds("api")
	NewCopies("api", CopyHit, CopyCoalesced, CopyMiss, CopyPassed, CopyDryHit, CopyStaleError, CopyStaleRefused)
	one := func() int { return 1 }
	defer CountCopies("api", one, one)()
	Watch("memory")
	WatchBreaker("memory")
	CountCached("memory")
	defer AddRules("config", 1)()
	defer CountKeys(func() iter.Seq2[string, int] { return maps.All(map[string]int{"api": 1}) })()

	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{"outcome": true, "result": true}
	var lines []string
	for _, f := range families {
		labels := map[string]map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if labels[l.GetName()] == nil {
					labels[l.GetName()] = map[string]bool{}
				}
				if ours[l.GetName()] {
					labels[l.GetName()][l.GetValue()] = true
				}
			}
		}
		line := f.GetName() + " " + strings.ToLower(f.GetType().String())
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			line += " " + label
			if values := slices.Sorted(maps.Keys(labels[label])); len(values) > 0 {
				line += "=" + strings.Join(values, "|")
			}
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	golden(t, "metrics.txt", strings.Join(lines, ""))
}

// golden compares with a file of testdata, or writes it if UPDATE_GOLDEN is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func TestMetricsCount(t *testing.T) {
	reg := registry(t)
	zone, rule := NewZone("counted"), NewRule("counted")
	outcomes := []Outcome{
		{Zone: zone, Kind: Allowed},
		{Zone: zone, Kind: Allowed},
		{Zone: zone, Kind: Refused},
		{Rule: rule, Kind: DryRefused},
		{Kind: Refused},
	}
	requests := func(outcome string) float64 {
		return value(t, reg, "caddy_weir_requests_total", "outcome="+outcome, "zone=counted")
	}
	blocks := func(outcome string) float64 {
		return value(t, reg, "caddy_weir_block_requests_total", "outcome="+outcome, "rule=counted")
	}
	allowed, refused, exempt, dry := requests("allowed"), requests("refused"), requests("exempt"), blocks("dry_refused")
	for _, o := range outcomes {
		Observers{Metrics{}}.Observe(o)
	}
	got := []float64{
		requests("allowed") - allowed, requests("refused") - refused,
		requests("exempt") - exempt, blocks("dry_refused") - dry,
	}
	if want := []float64{2, 1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if exempt < 0 {
		t.Error("a series is missing until it counts; it should begin with 0")
	}
}

// TestRegisterAgain: a reload brings a new registry, and counters grow on; a zone that
// is in both configurations has one counter.
func TestRegisterAgain(t *testing.T) {
	first := registry(t)
	Metrics{}.Observe(Outcome{Zone: NewZone("reloaded")})
	before := value(t, first, "caddy_weir_requests_total", "outcome=allowed", "zone=reloaded")
	second := registry(t)
	if err := Register(second); err != nil {
		t.Errorf("registering twice: %v", err)
	}
	Metrics{}.Observe(Outcome{Zone: NewZone("reloaded")})
	if got := value(t, second, "caddy_weir_requests_total", "outcome=allowed", "zone=reloaded"); got != before+1 {
		t.Errorf("counter is %v after the reload, want %v", got, before+1)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "caddy_weir_rules"}))
	if err := Register(taken); err == nil {
		t.Error("somebody else's metric of our name was not reported")
	}
}

// TestLabelsAreBounded: L89, even names of a configuration that a program writes.
func TestLabelsAreBounded(t *testing.T) {
	var l labels
	for i := range maxLabels {
		if name := fmt.Sprint("zone", i); l.fit(name) != name {
			t.Fatalf("name %d of %d does not fit", i, maxLabels)
		}
	}
	if got := l.fit("one more"); got != other {
		t.Errorf("got %q, want %q", got, other)
	}
	if got := l.fit("zone7"); got != "zone7" {
		t.Errorf("got %q for a known name", got)
	}
}

func TestAddRules(t *testing.T) {
	reg := registry(t)
	rules := func() float64 { return max(0, value(t, reg, "caddy_weir_rules", "source=config")) }
	before := rules()
	remove := AddRules("config", 3)
	if got := rules(); got != before+3 {
		t.Errorf("%v rules, want %v", got, before+3)
	}
	remove()
	remove() // a second call must not take others' rules away
	if got := rules(); got != before {
		t.Errorf("%v rules after removal, want %v", got, before)
	}
}

func TestCountKeys(t *testing.T) {
	reg := registry(t)
	count := func(m map[string]int) func() iter.Seq2[string, int] {
		return func() iter.Seq2[string, int] { return maps.All(m) }
	}
	stop1 := CountKeys(count(map[string]int{"keysA": 3, "keysB": 1}))
	stop2 := CountKeys(count(map[string]int{"keysA": 4}))
	if a, b := value(t, reg, "caddy_weir_keys", "zone=keysA"), value(t, reg, "caddy_weir_keys", "zone=keysB"); a != 7 || b != 1 {
		t.Errorf("%v and %v keys, want 7 and 1", a, b)
	}
	stop1()
	if a, b := value(t, reg, "caddy_weir_keys", "zone=keysA"), value(t, reg, "caddy_weir_keys", "zone=keysB"); a != 4 || b != -1 {
		t.Errorf("%v and %v keys, want 4 and none", a, b)
	}
	stop2()
}

// failing is a store that can do nothing.
type failing struct{ err error }

func (f failing) Take(context.Context, []limiter.Ask, []limiter.Result) error { return f.err }
func (f failing) Release(context.Context, []limiter.Ask) error                { return f.err }
func (f failing) Adjust(context.Context, []limiter.Change) error              { return f.err }
func (f failing) Reset(context.Context, *limiter.Limit, string) error         { return f.err }

func TestWatch(t *testing.T) {
	reg := registry(t)
	for result, s := range map[string]limiter.Store{
		"ok":          layer.AllowAll{},
		"unavailable": failing{fmt.Errorf("dial: %w", limiter.ErrUnavailable)},
		"error":       failing{errors.New("broken")},
	} {
		calls := func() float64 {
			return value(t, reg, "caddy_weir_store_calls_total", "result="+result, "store=watched")
		}
		w := Watch("watched")(s)
		before, decisions := calls(), value(t, reg, "caddy_weir_decision_seconds", "store=watched")
		err := w.Take(t.Context(), nil, nil)
		for _, other := range []error{
			w.Release(t.Context(), nil), w.Adjust(t.Context(), nil), w.Reset(t.Context(), nil, ""),
		} {
			if !errors.Is(other, err) {
				t.Errorf("%s: got %v, want the store's %v", result, other, err)
			}
		}
		if got := calls(); got != before+4 {
			t.Errorf("%s: %v calls, want %v", result, got, before+4)
		}
		if got := value(t, reg, "caddy_weir_decision_seconds", "store=watched"); got != decisions+1 {
			t.Errorf("%s: %v decisions, want %v", result, got, decisions+1)
		}
	}
}

// TestWatchBreaker: of several breakers the worst one shows.
func TestWatchBreaker(t *testing.T) {
	reg := registry(t)
	first, second := WatchBreaker("broken"), WatchBreaker("broken")
	for _, step := range []struct {
		tell  func(layer.BreakerState)
		state layer.BreakerState
		want  float64
	}{
		{first, layer.Open, 2},
		{second, layer.HalfOpen, 2},
		{first, layer.HalfOpen, 1},
		{second, layer.Open, 2},
		{second, layer.Closed, 1},
		{first, layer.Closed, 0},
	} {
		step.tell(step.state)
		if got := value(t, reg, "caddy_weir_breaker_state", "store=broken"); got != step.want {
			t.Errorf("state %v, want %v", got, step.want)
		}
	}
}

func TestCountCached(t *testing.T) {
	reg := registry(t)
	hit := CountCached("hit")
	hit()
	hit()
	if got := value(t, reg, "caddy_weir_cached_refusals_total", "store=hit"); got != 2 {
		t.Errorf("%v refusals, want 2", got)
	}
}

func BenchmarkMetrics(b *testing.B) {
	o := Outcome{Zone: NewZone("benchmark")}
	var obs Observer = Metrics{}
	b.ReportAllocs()
	for b.Loop() {
		obs.Observe(o)
	}
}

func BenchmarkWatch(b *testing.B) {
	w := Watch("benchmark")(failing{})
	b.ReportAllocs()
	for b.Loop() {
		_ = w.Take(b.Context(), nil, nil)
	}
}
