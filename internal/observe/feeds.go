package observe

import "github.com/prometheus/client_golang/prometheus"

// Feeds is what observers keep about the readers of a zone for feeds, made once when the configuration is
// loaded.
type Feeds struct {
	early prometheus.Counter
}

// NewFeeds returns what observers keep about the readers of the zone of that name.
func NewFeeds(zone string) *Feeds {
	return &Feeds{early: collected.early.WithLabelValues(zoneLabels.fit(zone))}
}

// Early counts a request that came before the Retry-After that its reader was told, by more than a tenth.
func (f *Feeds) Early() { f.early.Inc() }
