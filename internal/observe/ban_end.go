package observe

import (
	"cmp"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/weirhq/caddy-weir/blocklist"
)

// An Ended is a ban that is in force here no longer.
type Ended struct {
	// Ban as it was last.
	Ban *blocklist.Ban
	// Lifted is set if it was taken back, and did not end at its time.
	Lifted bool
}

// How a ban ended.
const (
	endOver   = "over"
	endLifted = "lifted"
)

// operators stands for the zone of bans that people made.
const operators = "_operator"

func (e *Ended) how() string {
	if e.Lifted {
		return endLifted
	}
	return endOver
}

// BanEnded counts and logs a ban that ended. Of a flood of them the log has the first in a second
// and every thousandth.
func (l *Log) BanEnded(e Ended) {
	b := e.Ban
	collected.bansEnded.WithLabelValues(zoneLabels.fit(cmp.Or(b.Zone, operators)), e.how()).Inc()
	skipped, ok := l.ends.pick(time.Now())
	if !ok {
		return
	}
	c := l.logger.Check(zapcore.InfoLevel, "ban ended")
	if c == nil {
		return
	}
	fields := append(make([]zap.Field, 0, 12),
		zap.String("zone", b.Zone), zap.Stringer("scope", b.Scope), zap.String("origin", b.Origin),
		zap.String("ban", b.Key), zap.String("how", e.how()), zap.Time("since", b.Since), zap.Time("until", b.Until))
	if b.Evidence.Reason != "" {
		fields = append(fields, zap.String("reason", b.Evidence.Reason), zap.Int("count", b.Count))
	}
	if b.Evidence.Client != "" {
		fields = append(fields, zap.String("client_ip", b.Evidence.Client))
	}
	if skipped > 0 {
		fields = append(fields, zap.Int64("suppressed", skipped))
	}
	c.Write(fields...)
}

// BanEnded queues the event of a ban that ended, if anybody listens.
func (e *Events) BanEnded(end Ended) {
	if !e.ready.Load() || !e.app.ShouldEmit(eventBanEnded) {
		return
	}
	b := end.Ban
	e.emit(eventBanEnded, Outcome{}, map[string]any{
		"zone": b.Zone, "scope": b.Scope.String(), "origin": b.Origin, "ban": b.Key, "how": end.how(),
		"reason": b.Evidence.Reason, "count": b.Count,
		"since": b.Since.UTC().Format(time.RFC3339), "until": b.Until.UTC().Format(time.RFC3339),
		"client_ip": b.Evidence.Client,
	})
}
