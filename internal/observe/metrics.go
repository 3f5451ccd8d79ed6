package observe

import (
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// collected holds the collectors. Caddy makes a new registry for each configuration;
// counters that are to grow on over a reload live as long as the process and are
// registered with each registry.
var collected = struct {
	requests   *prometheus.CounterVec
	blocks     *prometheus.CounterVec
	bans       *prometheus.CounterVec
	bansEnded  *prometheus.CounterVec
	claims     *prometheus.CounterVec
	early      *prometheus.CounterVec
	decisions  *prometheus.HistogramVec
	storeCalls *prometheus.CounterVec
	cached     *prometheus.CounterVec
	breakers   *prometheus.GaugeVec
	rules      *prometheus.GaugeVec
	keys       *keyCollector
	bansActive *keyCollector
	listAge    *ageCollector
	copies     *prometheus.CounterVec
	copiesHeld *keyCollector
	waiting    *keyCollector
}{
	requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_requests_total",
		Help: "Requests that a rate limit zone decided about.",
	}, []string{"zone", "outcome"}),
	blocks: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_block_requests_total",
		Help: "Requests that a block rule matched.",
	}, []string{"rule", "outcome"}),
	bans: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_bans_total",
		Help: "Bans that zones of this instance made.",
	}, []string{"zone", "outcome"}),
	bansEnded: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_bans_ended_total",
		Help: "Bans that were in force on this instance and ended, by the zone that made them.",
	}, []string{"zone", "outcome"}),
	claims: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_aggregator_requests_total",
		Help: "Requests to zones for feeds that say they are an aggregator's.",
	}, []string{"zone", "result"}),
	early: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_feed_early_requests_total",
		Help: "Requests to zones for feeds that came before the Retry-After which their reader was told.",
	}, []string{"zone"}),
	decisions: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "caddy_weir_decision_seconds",
		Help: "How long the store took to decide about a request.",
		// From a memory lookup to the longest wait that makes sense, by factors of 4.
		Buckets: prometheus.ExponentialBuckets(1e-6, 4, 11),
	}, []string{"store"}),
	storeCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_store_calls_total",
		Help: "Calls of the store by their result.",
	}, []string{"store", "result"}),
	cached: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_cached_refusals_total",
		Help: "Requests that were refused from memory, without a call of the store.",
	}, []string{"store"}),
	breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "caddy_weir_breaker_state",
		Help: "Whether calls reach the store: 0 yes (closed), 1 on trial (half-open), 2 no (open).",
	}, []string{"store"}),
	rules: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "caddy_weir_rules",
		Help: "Block rules in force by where they come from.",
	}, []string{"source"}),
	keys:       newKeyCollector("caddy_weir_keys", "Keys that are held in memory."),
	bansActive: newKeyCollector("caddy_weir_bans_active", "Bans in force by the zone that made them."),
	listAge:    newAgeCollector(),
	copies: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "caddy_weir_copies_total",
		Help: "Requests by what the copies of answers in memory were to them.",
	}, []string{"zone", "outcome"}),
	copiesHeld: newKeyCollector("caddy_weir_copies_bytes", "Bytes of answers that are held in memory."),
	waiting:    newKeyCollector("caddy_weir_copies_waiting", "Requests that wait for the answer to another one."),
}

// Register makes the metrics part of a configuration's registry. That they are already
// is no error.
func Register(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		collected.requests, collected.blocks, collected.bans, collected.bansEnded, collected.claims, collected.early, collected.decisions,
		collected.storeCalls, collected.cached, collected.breakers, collected.rules, collected.keys, collected.bansActive, collected.listAge,
		collected.copies, collected.copiesHeld, collected.waiting,
	} {
		var already prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

// Metrics is the observer that counts.
type Metrics struct{}

// Observe counts the outcome under its zone or rule.
func (Metrics) Observe(o Outcome) {
	s := o.subject()
	if s == nil {
		return
	}
	if c := s.counters[o.Kind]; c != nil {
		c.Inc()
	}
}

// AddRules counts n block rules as in force, until remove is called. source is where
// rules come from, such as "config". During a reload the old configuration's rules
// count beside the new one's for a moment.
func AddRules(source string, n int) (remove func()) {
	g := collected.rules.WithLabelValues(source)
	g.Add(float64(n))
	return sync.OnceFunc(func() { g.Sub(float64(n)) })
}

// resolve returns the counters of a label value by kind, so that all of them exist from
// the start with 0 and none is looked up for a request.
func resolve(v *prometheus.CounterVec, label string, of ...Kind) (counters [len(kinds)]prometheus.Counter) {
	for _, k := range of {
		counters[k] = v.WithLabelValues(label, k.String())
	}
	return counters
}

// maxLabels is how many names of zones, or of rules, get a series of their own in the
// life of a process. Names come from the configuration, but it may be written by a
// program and reloaded every minute.
const maxLabels = 1000

// other stands for the names beyond maxLabels.
const other = "_other"

var zoneLabels, ruleLabels labels

// labels bounds the values of a label.
type labels struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

// fit returns the name, or other if there are too many already.
func (l *labels) fit(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[name]; ok {
		return name
	}
	if len(l.seen) >= maxLabels {
		return other
	}
	if l.seen == nil {
		l.seen = make(map[string]struct{})
	}
	l.seen[name] = struct{}{}
	return name
}

var _ Observer = Metrics{}
