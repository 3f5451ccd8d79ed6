package grammar

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
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
	key, err := oneLineKey(line)
	if err != nil {
		return line.At.Errorf("%w", err)
	}
	named := name != ""
	name = cmp.Or(name, cmp.Or(line.Matcher, "*")+" "+line.Args[0])
	z := &config.Zone{Key: key, Limits: []config.Rate{{Events: events, Window: window}}}
	err = addZone(h, rl, name, z, line.At)
	if err == nil && !named {
		// Two sites may each have an @api of their own, without a thought of sharing.
		err = directive.Agree(h.State, "one-line zone", name, line.At, line, sameMatcher)
	}
	if err != nil {
		return fmt.Errorf("zone %q: %w", name, err)
	}
	return nil
}

// oneLineKey returns the key of a line, the client's address if there is none. A matcher that
// stands behind the rate would be a text that is the same for all: no limit of a path, but one
// budget for the site.
func oneLineKey(line directive.Line) (config.Parts, error) {
	key := config.Parts(line.Args[1:])
	if len(key) == 0 {
		return config.Parts{"{http.vars.client_ip}"}, nil
	}
	constant := true
	for _, part := range key {
		if part == "*" || strings.HasPrefix(part, "/") || strings.HasPrefix(part, "@") {
			return nil, fmt.Errorf("%s stands where a key does: a matcher comes before the rate, write \"rate_limit %s %s\"", part, part, line.Args[0])
		}
		constant = constant && !strings.Contains(part, "{")
	}
	if constant {
		line.At.Warn("the key of a rate_limit line holds no placeholder: it is one budget for all clients together", strings.Join(key, " "))
	}
	return key, nil
}

// sameMatcher names the matcher of two lines if it selects other requests in each.
func sameMatcher(a, b directive.Line) (field string, warn bool) {
	if bytes.Equal(caddyconfig.JSON(a.Set, nil), caddyconfig.JSON(b.Set, nil)) {
		return "", false
	}
	return "matcher " + a.Matcher, false
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
