package observe

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weirhq/caddy-weir/internal/aggregator"
)

// Aggregators is what observers keep about those who say, to a zone for feeds, that they are
// aggregators, made once when the configuration is loaded.
type Aggregators struct {
	zone     string
	counters [3]prometheus.Counter // by verdict
	lines    sampler
	told     hourly
}

// NewAggregators returns what observers keep about the aggregators of the zone of that name.
func NewAggregators(zone string) *Aggregators {
	a := &Aggregators{zone: zone}
	label := zoneLabels.fit(zone)
	for _, v := range []aggregator.Verdict{aggregator.Unknown, aggregator.Verified, aggregator.Forged} {
		a.counters[v] = collected.claims.WithLabelValues(label, v.String())
	}
	return a
}

// Aggregator counts a request that says it is from the aggregator of that name. The log has those
// that are not, each address once an hour, and of a flood of addresses the first in a second
// and every thousandth.
func (l *Log) Aggregator(a *Aggregators, name string, v aggregator.Verdict, client netip.Addr, r *http.Request) {
	a.counters[v].Inc()
	if v != aggregator.Forged || !l.logger.Core().Enabled(zapcore.InfoLevel) {
		return
	}
	now := time.Now()
	if !a.told.first(client, now) {
		return
	}
	skipped, ok := a.lines.pick(now)
	if !ok {
		return
	}
	if c := l.logger.Check(zapcore.InfoLevel, "aggregator not verified"); c != nil {
		fields := append(make([]zap.Field, 0, 8),
			zap.String("zone", a.zone), zap.String("aggregator", name),
			zap.String("host", shown(r.Host)), zap.String("path", shownIn(maxPath, r.URL.Path)),
			zap.String("user_agent", shown(r.UserAgent())),
			zap.String("remote_ip", remoteIP(r)), zap.String("client_ip", clientIP(r)))
		if skipped > 0 {
			fields = append(fields, zap.Int64("suppressed", skipped))
		}
		c.Write(fields...)
	}
}

// mostTold is of how many addresses an hourly remembers that they were told of.
const mostTold = 1000

// An hourly passes each address once an hour, as long as there are not too many: then all are
// forgotten, and may pass again. The zero value is ready; it is safe for concurrent use.
type hourly struct {
	mu   sync.Mutex
	told map[netip.Addr]time.Time
}

// first reports whether the address has not passed within the last hour.
func (h *hourly) first(a netip.Addr, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last, ok := h.told[a]; ok && now.Sub(last) < time.Hour {
		return false
	}
	if h.told == nil || len(h.told) >= mostTold {
		h.told = make(map[netip.Addr]time.Time)
	}
	h.told[a] = now
	return true
}
