package observe

import (
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// Log is the observer that writes refusals to the log: of each zone and rule the first
// in a second and after that every thousandth, with the number of those passed over
// since.
type Log struct {
	logger *zap.Logger
	ends   sampler // of bans

	// Calls of the store that failed, without being an outage, are logged once a minute.
	mu       sync.Mutex
	failedAt time.Time
	failures int64 // since then
}

// NewLog returns an observer that writes to logger.
func NewLog(logger *zap.Logger) *Log { return &Log{logger: logger} }

// Observe logs what was refused or would have been, at level info.
func (l *Log) Observe(o Outcome) {
	if !o.Kind.refuses() && !o.Kind.dry() {
		return
	}
	s := o.subject()
	if s == nil || !l.logger.Core().Enabled(zapcore.InfoLevel) {
		return
	}
	skipped, ok := s.lines[o.Kind].pick(time.Now())
	if !ok {
		return
	}
	if c := l.logger.Check(zapcore.InfoLevel, o.message()); c != nil {
		fields := o.fields()
		if skipped > 0 {
			fields = append(fields, zap.Int64("suppressed", skipped))
		}
		c.Write(fields...)
	}
}

// StoreDown logs that an outage of the store has begun.
func (l *Log) StoreDown(err error) { l.logger.Warn("store unavailable", zap.Error(err)) }

// StoreUp logs that an outage has ended, and how long the store was away.
func (l *Log) StoreUp(outage time.Duration) {
	l.logger.Info("store available again", zap.Duration("outage", outage))
}

// failedInterval is the shortest time between two lines about calls that failed.
const failedInterval = time.Minute

// StoreFailed logs that a call of the store failed for a reason that lies in its key or its
// command: once a minute, with the number of those passed over.
func (l *Log) StoreFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures++
	if now := time.Now(); l.failedAt.IsZero() || now.Sub(l.failedAt) >= failedInterval {
		l.logger.Warn("store call failed", zap.Error(err), zap.Int64("suppressed", l.failures-1))
		l.failedAt, l.failures = now, 0
	}
}

// message says what happened, and of a dry run what would have: whoever reads it in the
// middle of the night must not take the one for the other.
func (o *Outcome) message() string {
	dry := o.Kind.dry()
	switch {
	case o.Kind == Banned:
		return "banned client refused"
	case o.Kind == DryBanned:
		return "banned client would be refused"
	case o.Rule != nil && dry:
		return "request would be blocked"
	case o.Rule != nil:
		return "request blocked"
	case dry:
		return "rate limit would be exceeded"
	}
	return "rate limit exceeded"
}

// asked returns what the log tells of a job or a message: what a rule may look at, save its arguments.
func asked(a *blocklist.Request) []zap.Field {
	fields := []zap.Field{zap.Stringer("source", a.Source)}
	for _, f := range []struct{ name, value string }{
		{"handler", a.Handler},
		{"message_type", a.MessageType},
		{"user", a.User},
		{"method", a.Method},
		{"host", a.Host},
		{"path", a.Path},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, shownIn(maxPath, f.value)))
		}
	}
	if a.Client.IsValid() {
		fields = append(fields, zap.Stringer("client_ip", a.Client))
	}
	return fields
}

// fields returns what the log tells of a refusal.
func (o *Outcome) fields() []zap.Field {
	fields := make([]zap.Field, 0, 14)
	if o.Zone != nil {
		fields = append(fields, zap.String("zone", o.Zone.Name))
	}
	if o.Rule != nil {
		fields = append(fields, zap.String("rule", o.ruleName()))
	}
	if o.Limit != nil {
		fields = append(fields,
			zap.String("algorithm", o.Limit.Algorithm),
			zap.Int64("events", o.Limit.Events))
		if most := o.Result.Max; o.Result.Origin == limiter.Local && most > 0 && most < o.Limit.Max() {
			// While the store is away each of several instances enforces a part of the limit.
			fields = append(fields, zap.Int64("share", most))
		}
		if o.Limit.Algorithm != limiter.InFlight {
			fields = append(fields, zap.Duration("window", o.Limit.Window))
		}
		fields = append(fields, zap.Stringer("origin", o.Result.Origin))
		if o.Result.Wait != limiter.Never {
			fields = append(fields, zap.Duration("wait", o.Result.Wait))
		}
	}
	if o.Kind == Banned || o.Kind == DryBanned {
		fields = append(fields, zap.Duration("wait", o.Result.Wait))
	}
	switch o.Kind {
	case DryRefused, DryBanned:
		fields = append(fields, zap.Bool("dry_run", true))
	case Aborted, Tarpitted:
		fields = append(fields, zap.Stringer("outcome", o.Kind))
	}
	if r := o.Request; r != nil {
		fields = append(fields,
			zap.String("method", shown(r.Method)),
			zap.String("host", shown(r.Host)),
			zap.String("path", shownIn(maxPath, r.URL.Path)),
			zap.String("remote_ip", remoteIP(r)),
			zap.String("client_ip", clientIP(r)))
	}
	if o.Hasher != nil && o.Key != "" {
		fields = append(fields, zap.String("key_hash", o.Hasher.String(o.Key)))
	}
	if a := o.Asked; a != nil {
		fields = append(fields, asked(a)...)
	}
	if o.LogKey {
		fields = append(fields, zap.String("key", shown(o.Key)))
	}
	return fields
}

// remoteIP returns the address of the peer.
func remoteIP(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// clientIP returns the address of the client as Caddy sees it, which trusted proxies
// may have told; the peer's if Caddy did not say.
func clientIP(r *http.Request) string {
	if vars, ok := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any); ok {
		if ip, ok := vars[caddyhttp.ClientIPVarKey].(string); ok && ip != "" {
			return ip
		}
	}
	return remoteIP(r)
}

var _ Observer = (*Log)(nil)
