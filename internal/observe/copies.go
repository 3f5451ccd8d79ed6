package observe

import (
	"iter"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A CopyUse is what the copies of a zone were to a request.
type CopyUse uint8

// The uses.
const (
	CopyHit          CopyUse = iota // its answer
	CopyCoalesced                   // its answer, once another request had fetched it
	CopyMiss                        // not there, so that it went on to the limits and the site
	CopyPassed                      // no use, since it or the site's answer cannot be shared
	CopyDryHit                      // would have been its answer, but the zone is a dry run
	CopyStaleError                  // its answer in place of an error of the site
	CopyStaleRefused                // its answer in place of a refusal
)

// copyUses holds each use's word in metrics.
var copyUses = [...]string{
	CopyHit:          "hit",
	CopyCoalesced:    "coalesced",
	CopyMiss:         "miss",
	CopyPassed:       "passed",
	CopyDryHit:       "dry_hit",
	CopyStaleError:   "stale_error",
	CopyStaleRefused: "stale_refused",
}

// String returns the use's word in metrics and logs.
func (u CopyUse) String() string { return copyUses[u] }

// Copies is what observers keep about the copies of a zone, made once when the configuration is
// loaded.
type Copies struct {
	zone     string
	counters [len(copyUses)]prometheus.Counter
	lines    sampler
}

// NewCopies returns what observers keep about the copies of the zone of that name, which have these
// uses.
func NewCopies(zone string, uses ...CopyUse) *Copies {
	c := &Copies{zone: zone}
	label := zoneLabels.fit(zone)
	for _, u := range uses {
		c.counters[u] = collected.copies.WithLabelValues(label, u.String())
	}
	return c
}

// Use counts what copies were to a request, and notes in its line of the access log if one was its
// answer.
func (c *Copies) Use(r *http.Request, u CopyUse) {
	if counter := c.counters[u]; counter != nil {
		counter.Inc()
	}
	switch u {
	case CopyMiss, CopyPassed, CopyDryHit:
		return
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.String("copy", u.String()))
	}
}

// CountCopies reports how many bytes of answers a zone holds in memory, and how many of its requests
// wait, until stop is called. held and waiting must be safe to call from any goroutine.
func CountCopies(zone string, held, waiting func() int) (stop func()) {
	count := func(n func() int) func() iter.Seq2[string, int] {
		return func() iter.Seq2[string, int] {
			return func(yield func(string, int) bool) { yield(zone, n()) }
		}
	}
	stopHeld := collected.copiesHeld.count(count(held))
	stopWaiting := collected.waiting.count(count(waiting))
	return func() {
		stopHeld()
		stopWaiting()
	}
}

// A Failure is an error of the site that its client was not told of.
type Failure struct {
	// Zone that has answered instead.
	Zone *Copies
	// Request that failed.
	Request *http.Request
	// Status that the site wanted to answer with.
	Status int
	// Err is what its handler returned, if it did.
	Err error
	// Age of the copy that the client was given.
	Age time.Duration
}

// SiteFailed logs an error that a copy took the place of, as a warning: nobody else is told of it.
// Of many the log has the first in a second and every thousandth.
func (l *Log) SiteFailed(f Failure) {
	skipped, ok := f.Zone.lines.pick(time.Now())
	if !ok {
		return
	}
	c := l.logger.Check(zapcore.WarnLevel, "the site failed, and a copy took its place")
	if c == nil {
		return
	}
	r := f.Request
	fields := []zap.Field{
		zap.String("zone", f.Zone.zone),
		zap.Int("status", f.Status),
		zap.Duration("age", f.Age),
		zap.String("method", shown(r.Method)),
		zap.String("host", shown(r.Host)),
		zap.String("path", shownIn(maxPath, r.URL.Path)),
	}
	if f.Err != nil {
		fields = append(fields, zap.Error(f.Err))
	}
	if skipped > 0 {
		fields = append(fields, zap.Int64("suppressed", skipped))
	}
	c.Write(fields...)
}
