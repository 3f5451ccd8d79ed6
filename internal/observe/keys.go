package observe

import (
	"iter"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// keyCollector reports how many keys the stores hold by zone, or how many bans there are. It asks
// when it is asked.
type keyCollector struct {
	desc *prometheus.Desc

	mu      sync.Mutex
	sources map[*keySource]struct{}
}

type keySource struct{ count func() iter.Seq2[string, int] }

func newKeyCollector(name, help string) *keyCollector {
	return &keyCollector{
		desc:    prometheus.NewDesc(name, help, []string{"zone"}, nil),
		sources: make(map[*keySource]struct{}),
	}
}

// CountKeys reports what count yields, zones and their numbers of keys, until stop is
// called. count runs at each scrape and must be safe to call from any goroutine.
// Zones that several counts yield are added up.
func CountKeys(count func() iter.Seq2[string, int]) (stop func()) {
	return collected.keys.count(count)
}

// CountBans is CountKeys for the bans that are in force.
func CountBans(count func() iter.Seq2[string, int]) (stop func()) {
	return collected.bansActive.count(count)
}

func (k *keyCollector) count(count func() iter.Seq2[string, int]) (stop func()) {
	s := &keySource{count: count}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sources[s] = struct{}{}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.sources, s)
	}
}

// Describe implements [prometheus.Collector].
func (k *keyCollector) Describe(ch chan<- *prometheus.Desc) { ch <- k.desc }

// Collect implements [prometheus.Collector].
func (k *keyCollector) Collect(ch chan<- prometheus.Metric) {
	k.mu.Lock()
	sources := make([]*keySource, 0, len(k.sources))
	for s := range k.sources {
		sources = append(sources, s)
	}
	k.mu.Unlock()

	keys := make(map[string]int)
	for _, s := range sources {
		for zone, n := range s.count() {
			keys[zoneLabels.fit(zone)] += n
		}
	}
	for zone, n := range keys {
		ch <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, float64(n), zone)
	}
}
