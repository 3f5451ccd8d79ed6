package observe

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ListStale queues the event that the shared list, which is kept at a place, could not be read for
// some time.
func (e *Events) ListStale(list string, age time.Duration, err error) {
	if !e.ready.Load() || !e.app.ShouldEmit(eventStale) {
		return
	}
	e.emit(eventStale, Outcome{}, map[string]any{"list": list, "age": age, "error": err.Error()})
}

// ageCollector reports how old the shared block list is. It asks when it is asked.
type ageCollector struct {
	desc *prometheus.Desc

	mu   sync.Mutex
	asks map[*ageSource]struct{}
}

type ageSource struct{ age func() time.Duration }

func newAgeCollector() *ageCollector {
	return &ageCollector{
		desc: prometheus.NewDesc("caddy_weir_block_list_age_seconds",
			"How long ago the shared block list was last known to be up to date.", nil, nil),
		asks: make(map[*ageSource]struct{}),
	}
}

// TellListAge reports the age of a shared block list, of several the oldest, until stop is called. age
// runs at each scrape and must be safe to call from any goroutine.
func TellListAge(age func() time.Duration) (stop func()) {
	a, s := collected.listAge, &ageSource{age}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks[s] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asks, s)
	}
}

// Describe implements [prometheus.Collector].
func (a *ageCollector) Describe(ch chan<- *prometheus.Desc) { ch <- a.desc }

// Collect implements [prometheus.Collector].
func (a *ageCollector) Collect(ch chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var oldest time.Duration
	for s := range a.asks {
		oldest = max(oldest, s.age())
	}
	if len(a.asks) > 0 {
		ch <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, oldest.Seconds())
	}
}
