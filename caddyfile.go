package weir

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
	"github.com/weirhq/caddy-weir/limiter"
)

func init() {
	// Packages are initialised in the order of their paths, so the other module is
	// there first and this message is the one that is seen.
	if m, err := caddy.GetModule("http.handlers.rate_limit"); err == nil {
		if _, ours := m.New().(*RateLimit); !ours {
			panic("this build has another rate_limit module: Weir reads the configurations of mholt/caddy-ratelimit, but both cannot be in one build")
		}
	}
	httpcaddyfile.RegisterGlobalOption("weir", parseApp)
	httpcaddyfile.RegisterDirective("block", parseBlock)
	httpcaddyfile.RegisterDirective("rate_limit", parseRateLimit)
	// Refused requests neither redirect nor look for files, hence redir; rate limits
	// see the rewritten path, and are before both spellings of basic_auth.
	httpcaddyfile.RegisterDirectiveOrder("block", httpcaddyfile.Before, "redir")
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basicauth")
}

// The words that several options choose from.
var (
	algorithms   = []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter, limiter.TokenBucket, limiter.FixedWindow}
	headerStyles = []string{"legacy", "draft", "both", "off"}
	storeErrors  = []string{"local", "allow", "deny"}
	emptyKeys    = []string{"skip", "client_ip", "reject"}
	modes        = []string{"enforce", "dry_run", "off"}
)

// parseApp reads the global options:
//
//	weir {
//		redis <address> {
//			username  <string>
//			password  <string>
//			db        <n>
//			prefix    <string>
//			timeout   <duration>
//			pool_size <n>
//		}
//		on_store_error local|allow|deny
//		hash_keys      on|off|secret <string>
//		ip_prefix      <v4> <v6>
//		headers        legacy|draft|both|off
//		max_keys       <n>
//	}
func parseApp(d *caddyfile.Dispenser, earlier any) (any, error) {
	d.Next()
	if earlier != nil {
		return nil, d.Err("weir: stands twice in the global options")
	}
	if args, err := directive.Words(d); err != nil || len(args) > 0 {
		return nil, d.Err("weir: takes a block and no arguments")
	}
	app := new(config.App)
	if err := appTable(app).Read(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "weir", Value: caddyconfig.JSON(app, nil)}, nil
}

func appTable(app *config.App) directive.Table {
	return directive.Table{
		directive.Nested("redis", "<address>", 1, redisTable(new(config.Redis)), func(b *directive.Body) error {
			app.Redis = &config.Redis{Addresses: b.Args}
			return b.Read(redisTable(app.Redis))
		}),
		directive.OneOf("on_store_error", &app.OnStoreError, storeErrors...),
		directive.Args("hash_keys", "on|off|secret <string>", 1, 2, func(args []string) error {
			switch {
			case args[0] == "secret" && len(args) == 2:
				app.Secret = args[1]
			case (args[0] == "on" || args[0] == "off") && len(args) == 1:
				app.HashKeys = args[0]
			default: // what was written may be a secret, so it is not repeated
				return errors.New(`must be "on", "off" or "secret <string>"`)
			}
			return nil
		}),
		directive.Args("ip_prefix", "<v4> <v6>", 2, 2, func(args []string) error {
			if err := directive.Whole(args[0], 1, &app.IPv4Prefix); err != nil {
				return fmt.Errorf("v4: %w", err)
			}
			if err := directive.Whole(args[1], 1, &app.IPv6Prefix); err != nil {
				return fmt.Errorf("v6: %w", err)
			}
			return nil
		}),
		directive.OneOf("headers", &app.Headers, headerStyles...),
		directive.Count("max_keys", "<n>", &app.MaxKeys),
	}
}

func redisTable(r *config.Redis) directive.Table {
	return directive.Table{
		directive.Text("username", "<string>", &r.Username),
		directive.Text("password", "<string>", &r.Password),
		directive.Args("db", "<n>", 1, 1, func(args []string) error { return directive.Whole(args[0], 0, &r.DB) }),
		directive.Text("prefix", "<string>", &r.Prefix),
		directive.Duration("timeout", &r.Timeout),
		directive.Count("pool_size", "<n>", &r.PoolSize),
	}
}

// parseRateLimit reads a handler that limits, either in one line, which makes a zone
// keyed by the client's address unless keys are given, or by zones:
//
//	rate_limit [<matcher>] [<rate> [<key...>]] {
//		zone <name> { … }
//		name            <name>
//		dry_run
//		status          <code>
//		message         <text>
//		jitter          <fraction>
//		headers         legacy|draft|both|off
//		on_store_error  local|allow|deny
//		log_key
//		distributed     { … }
//		storage         <module…>
//		sweep_interval  <duration>
//		disable_metrics
//	}
//
// The last four, of mholt/caddy-ratelimit, are read and have no effect.
func parseRateLimit(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	line, err := directive.Begin(h)
	if err != nil {
		return nil, err
	}
	handler, name := new(RateLimit), ""
	rl := &handler.RateLimit
	if err := rateLimitTable(h, rl, &name).Read(h.Dispenser); err != nil {
		return nil, err
	}
	oneLine := len(line.Args) > 0
	switch {
	case oneLine && len(rl.Zones) > 0:
		return nil, line.At.Errorf("has both a one-line rate and zone blocks: make the rate a zone of its own")
	case oneLine:
		if err := addOneLine(h, rl, name, line); err != nil {
			return nil, err
		}
	case name != "":
		return nil, line.At.Errorf("name: names the zone of a one-line rate, and there is none")
	case len(rl.Zones) == 0:
		return nil, line.At.Errorf("limits nothing: needs a rate or a zone block")
	}
	return h.NewRoute(line.Set, handler), nil
}

// addOneLine makes the zone of the form `rate_limit <rate> <key...>`.
func addOneLine(h httpcaddyfile.Helper, rl *config.RateLimit, name string, line directive.Line) error {
	events, window, err := directive.Rate(line.Args[0])
	if err != nil {
		return line.At.Errorf("%w", err)
	}
	key := config.Parts(line.Args[1:])
	if len(key) == 0 {
		key = config.Parts{"{http.vars.client_ip}"}
	}
	name = cmp.Or(name, cmp.Or(line.Matcher, "*")+" "+line.Args[0])
	zone := &config.Zone{Key: key, Limits: []config.Rate{{Events: events, Window: window}}}
	if err := addZone(h, rl, name, zone, line.At); err != nil {
		return fmt.Errorf("zone %q: %w", name, err)
	}
	return nil
}

func rateLimitTable(h httpcaddyfile.Helper, rl *config.RateLimit, name *string) directive.Table {
	return directive.Table{
		directive.Named("zone", zoneTable(h, new(config.Zone)), func(b *directive.Body) error {
			zone := new(config.Zone)
			if err := b.Read(zoneTable(h, zone)); err != nil {
				return err
			}
			if zone.CountRejected == usualCeiling {
				zone.CountRejected = zone.UsualCeiling()
			}
			return addZone(h, rl, b.Args[0], zone, b.At)
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

// zoneTable holds what a zone block may say.
func zoneTable(h httpcaddyfile.Helper, z *config.Zone) directive.Table {
	return directive.Table{
		directive.Matchers("match", h, &z.MatcherSets),
		directive.Args("key", "<string...>", 1, -1, func(args []string) error {
			if len(args) > 1 || args[0] != "" { // JSON has no one empty part either
				z.Key = args
			}
			return nil
		}),
		directive.Many(directive.Args("limit", "<rate> [burst <n>] [<algorithm>]", 1, 4, func(args []string) error {
			rate, err := parseLimit(args)
			z.Limits = append(z.Limits, rate)
			return err
		})),
		directive.Args("events", "<n>", 1, 1, func(args []string) error {
			z.MaxEvents = new(int64)
			return directive.Whole(args[0], 1, z.MaxEvents)
		}),
		directive.Duration("window", &z.Window),
		directive.OneOf("algorithm", &z.Algorithm, algorithms...),
		directive.Count("burst", "<n>", &z.Burst),
		directive.Duration("min_interval", &z.MinInterval),
		directive.Text("cost", "<n|placeholder>", &z.Cost),
		directive.Args("count_rejected", "[<ceiling>]", 0, 1, func(args []string) error {
			if len(args) == 0 {
				z.CountRejected = usualCeiling
				return nil
			}
			return directive.Span(args[0], &z.CountRejected)
		}),
		directive.OneOf("on_empty_key", &z.OnEmptyKey, emptyKeys...),
		directive.Count("ipv4_prefix", "<bits>", &z.IPv4Prefix),
		directive.Count("ipv6_prefix", "<bits>", &z.IPv6Prefix),
		directive.RangesOrMatchers("exempt", h, &z.ExemptRanges, &z.Exempt),
		directive.Flag("dry_run", &z.DryRun),
	}
}

// usualCeiling stands for the ceiling of a count_rejected without one while a zone is
// read: the windows may come after it.
const usualCeiling caddy.Duration = -1

// addZone gives the handler a zone, which must agree with those of the same name in
// all sites: they are one zone.
func addZone(h httpcaddyfile.Helper, rl *config.RateLimit, name string, zone *config.Zone, at directive.Place) error {
	if rl.Zones == nil {
		rl.Zones = make(map[string]*config.Zone)
	}
	rl.Zones[name] = zone
	return directive.Agree(h.State, "zone", name, at, zone, (*config.Zone).Differs)
}

// parseLimit reads `<rate> [burst <n>] [<algorithm>]`, the latter two in any order.
func parseLimit(args []string) (rate config.Rate, err error) {
	if rate.Events, rate.Window, err = directive.Rate(args[0]); err != nil {
		return rate, err
	}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		switch {
		case args[0] != "burst" && rate.Algorithm == "":
			if err := directive.Choose(args[0], append([]string{"burst"}, algorithms...)); err != nil {
				return rate, err
			}
			rate.Algorithm = args[0]
		case args[0] == "burst" && rate.Burst == 0 && len(args) > 1:
			if err := directive.Whole(args[1], 1, &rate.Burst); err != nil {
				return rate, fmt.Errorf("burst: %w", err)
			}
			args = args[1:]
		default:
			return rate, fmt.Errorf(`%q does not fit, write "limit <rate> [burst <n>] [<algorithm>]"`, args[0])
		}
	}
	return rate, nil
}

// parseBlock reads a handler that refuses what its rules match, or addresses, or with
// neither whatever the matcher selects:
//
//	block [<matcher>] [<address|cidr...>] {
//		mode    enforce|dry_run|off
//		name    <name>
//		rule <name> {
//			host|url|path|method|client_ip|user_agent <pattern...>
//			query   <pattern>
//			header  <name> <pattern...>
//			note    <text>
//			expires <duration|RFC 3339>
//			action  <code>
//			dry_run
//		}
//		allow   <address|cidr...>|@<name>|{ <matchers> }
//		respond <code> [<body>]
//	}
func parseBlock(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	line, err := directive.Begin(h)
	if err != nil {
		return nil, err
	}
	handler := new(Block)
	b := &handler.Block
	if err := directive.AppendRanges(&b.Ranges, line.Args); err != nil {
		return nil, line.At.Errorf("%w", err)
	}
	if err := blockTable(h, b).Read(h.Dispenser); err != nil {
		return nil, err
	}
	if len(b.Ranges) == 0 && len(b.Rules) == 0 {
		if line.Matcher == "" {
			return nil, line.At.Errorf("refuses nothing: needs a rule, an address or a matcher")
		}
		b.Everything = true
		b.Name = cmp.Or(b.Name, line.Matcher)
	}
	return h.NewRoute(line.Set, handler), nil
}

func blockTable(h httpcaddyfile.Helper, b *config.Block) directive.Table {
	return directive.Table{
		directive.OneOf("mode", &b.Mode, modes...),
		directive.Text("name", "<name>", &b.Name),
		directive.Named("rule", ruleTable(new(config.Rule)), func(body *directive.Body) error {
			rule := config.Rule{Name: body.Args[0]}
			err := body.Read(ruleTable(&rule))
			b.Rules = append(b.Rules, rule)
			return err
		}),
		directive.RangesOrMatchers("allow", h, &b.AllowRanges, &b.Allow),
		directive.Args("respond", "<code> [<body>]", 1, 2, func(args []string) error {
			if len(args) == 2 {
				b.Body = args[1]
			}
			return directive.Whole(args[0], 1, &b.Status)
		}),
	}
}

// ruleTable holds what a rule of a block may say.
func ruleTable(r *config.Rule) directive.Table {
	patterns := func(name string, target *[]string) directive.Option {
		return directive.Many(directive.Texts(name, "<pattern...>", target))
	}
	return directive.Table{
		patterns("host", &r.Host),
		patterns("url", &r.URL),
		patterns("path", &r.Path),
		patterns("method", &r.Method),
		patterns("client_ip", &r.ClientIP),
		patterns("user_agent", &r.UserAgent),
		directive.Args("query", "<pattern>", 1, 1, func(args []string) error {
			r.Query = &args[0]
			return nil
		}),
		directive.Many(directive.Args("header", "<name> <pattern...>", 2, -1, func(args []string) error {
			if r.Header == nil {
				r.Header = make(map[string][]string)
			}
			// One header in two spellings is one, whose patterns add up.
			name := http.CanonicalHeaderKey(args[0])
			r.Header[name] = append(r.Header[name], args[1:]...)
			return nil
		})),
		directive.Text("note", "<text>", &r.Note),
		directive.Text("expires", "<duration|RFC 3339>", &r.Expires),
		directive.Count("action", "<code>", &r.Action),
		directive.Flag("dry_run", &r.DryRun),
	}
}
