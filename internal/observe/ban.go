package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weirhq/caddy-weir/blocklist"
)

// A Begun is a ban that a zone has just made.
type Begun struct {
	// Zone that made it.
	Zone *Bans
	// Ban as it is kept.
	Ban *blocklist.Ban
	// Dry is set if it refuses nobody.
	Dry bool
	// Client is the address of the last request that counted, if that is known.
	Client string
	// Key is the banned key in clear. It is logged only if LogKey is set.
	Key    string
	LogKey bool
}

// Bans is what observers keep about the bans of a zone, made once when the configuration is
// loaded.
type Bans struct {
	zone       string
	begun, dry prometheus.Counter
	lines      sampler
}

// NewBans returns what observers keep about the bans of the zone of that name.
func NewBans(zone string) *Bans {
	label := zoneLabels.fit(zone)
	for _, how := range []string{endOver, endLifted} {
		collected.bansEnded.WithLabelValues(label, how) // there from the start, with 0
	}
	return &Bans{
		zone:  zone,
		begun: collected.bans.WithLabelValues(label, Banned.String()),
		dry:   collected.bans.WithLabelValues(label, DryBanned.String()),
	}
}

// Ban counts and logs a ban that begins. Of a flood of them the log has the first in a second
// and every thousandth.
func (l *Log) Ban(b Begun) {
	message, counter := "client banned", b.Zone.begun
	if b.Dry {
		message, counter = "client would be banned", b.Zone.dry
	}
	counter.Inc()
	skipped, ok := b.Zone.lines.pick(time.Now())
	if !ok {
		return
	}
	c := l.logger.Check(zapcore.InfoLevel, message)
	if c == nil {
		return
	}
	fields := b.fields()
	if skipped > 0 {
		fields = append(fields, zap.Int64("suppressed", skipped))
	}
	c.Write(fields...)
}

// fields returns what the log tells of a ban.
func (b *Begun) fields() []zap.Field {
	e := &b.Ban.Evidence
	fields := append(make([]zap.Field, 0, 16),
		zap.String("zone", b.Zone.zone),
		zap.Stringer("scope", b.Ban.Scope),
		zap.String("reason", e.Reason),
		zap.Int("count", b.Ban.Count),
		zap.Duration("length", b.Ban.Until.Sub(b.Ban.Since)),
		zap.Time("until", b.Ban.Until))
	if b.Dry {
		fields = append(fields, zap.Bool("dry_run", true))
	}
	if e.Status != 0 {
		fields = append(fields, zap.Int("status", e.Status))
	}
	if e.Path != "" {
		fields = append(fields,
			zap.String("host", shown(e.Host)),
			zap.String("path", shownIn(maxPath, e.Path)),
			zap.String("user_agent", shown(e.UserAgent)))
	}
	if b.Client != "" {
		fields = append(fields, zap.String("client_ip", b.Client))
	}
	if b.Ban.Key != "" {
		fields = append(fields, zap.String("ban", b.Ban.Key))
	}
	if b.LogKey {
		fields = append(fields, zap.String("key", shown(b.Key)))
	}
	return fields
}

// Ban queues the event of a ban that begins, if anybody listens.
func (e *Events) Ban(b Begun) {
	if b.Dry || !e.ready.Load() || !e.app.ShouldEmit(eventBanBegun) {
		return
	}
	e.emit(eventBanBegun, Outcome{}, map[string]any{
		"zone": b.Zone.zone, "scope": b.Ban.Scope.String(), "ban": b.Ban.Key,
		"reason": b.Ban.Evidence.Reason, "count": b.Ban.Count,
		"length": b.Ban.Until.Sub(b.Ban.Since), "until": b.Ban.Until.UTC().Format(time.RFC3339),
		"client_ip": b.Client, "host": b.Ban.Evidence.Host, "path": b.Ban.Evidence.Path,
	})
}
