package e2e

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"
)

func init() { caddy.RegisterModule(tell{}) }

// tell is an event handler that logs the events it hears.
type tell struct{ logger *zap.Logger }

// CaddyModule describes the module to Caddy.
func (tell) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.tell", New: func() caddy.Module { return new(tell) }}
}

// Provision takes the logger.
func (t *tell) Provision(ctx caddy.Context) error {
	t.logger = ctx.Logger()
	return nil
}

// UnmarshalCaddyfile reads the module's words, of which there are none.
func (t *tell) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Handle logs the event.
func (t *tell) Handle(_ context.Context, e caddy.Event) error {
	t.logger.Info("heard", zap.String("event", e.Name()), zap.Any("data", e.Data))
	return nil
}

var (
	_ caddy.Provisioner     = (*tell)(nil)
	_ caddyfile.Unmarshaler = (*tell)(nil)
	_ caddyevents.Handler   = (*tell)(nil)
)
