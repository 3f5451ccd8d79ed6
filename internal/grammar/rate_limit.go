package grammar

import (
	"cmp"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// RateLimit is the table of a rate_limit block. name is where the name of the zone goes
// that the one-line form makes.
func RateLimit(h httpcaddyfile.Helper, rl *config.RateLimit, name *string) directive.Table {
	return directive.Table{
		directive.Named("zone", zone(h, new(config.Zone)), func(b *directive.Body) error {
			z := new(config.Zone)
			if err := b.Read(zone(h, z)); err != nil {
				return err
			}
			if z.CountRejected == usualCeiling {
				z.CountRejected = z.UsualCeiling()
			}
			return addZone(h, rl, b.Args[0], z, b.At)
		}),
		directive.Text("name", "<name>", name),
		directive.Flag("dry_run", &rl.DryRun),
		directive.Count("status", "<code>", &rl.Status),
		directive.Text("message", "<text>", &rl.Message),
		directive.Fraction("jitter", &rl.Jitter),
		directive.OneOf("headers", &rl.Headers, headerStyles...),
		directive.OneOf("on_store_error", &rl.OnStoreError, storeErrors...),
		directive.Flag("log_key", &rl.LogKey),
		directive.Durations("distributed", &rl.Distributed, "read_interval", "write_interval", "purge_age"),
		directive.Module("storage", "caddy.storage", "module", &rl.Storage),
		directive.Duration("sweep_interval", &rl.SweepInterval),
		directive.Flag("disable_metrics", &rl.DisableMetrics),
	}
}

// OneLine makes the zone of the form `rate_limit <rate> <key...>`.
func OneLine(h httpcaddyfile.Helper, rl *config.RateLimit, name string, line directive.Line) error {
	events, window, err := directive.Rate(line.Args[0])
	if err != nil {
		return line.At.Errorf("%w", err)
	}
	key := config.Parts(line.Args[1:])
	if len(key) == 0 {
		key = config.Parts{"{http.vars.client_ip}"}
	}
	name = cmp.Or(name, cmp.Or(line.Matcher, "*")+" "+line.Args[0])
	z := &config.Zone{Key: key, Limits: []config.Rate{{Events: events, Window: window}}}
	if err := addZone(h, rl, name, z, line.At); err != nil {
		return fmt.Errorf("zone %q: %w", name, err)
	}
	return nil
}

// addZone gives the handler a zone, which must agree with those of the same name in
// all sites: they are one zone.
func addZone(h httpcaddyfile.Helper, rl *config.RateLimit, name string, z *config.Zone, at directive.Place) error {
	if rl.Zones == nil {
		rl.Zones = make(map[string]*config.Zone)
	}
	rl.Zones[name] = z
	return directive.Agree(h.State, "zone", name, at, z, (*config.Zone).Differs)
}
