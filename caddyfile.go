package weir

import (
	"cmp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
	"github.com/weirhq/caddy-weir/internal/grammar"
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
	httpcaddyfile.RegisterDirective("weir_check", parseCheck)
	// Refused requests neither redirect nor look for files, hence redir; rate limits
	// see the rewritten path, and are before both spellings of basic_auth.
	httpcaddyfile.RegisterDirectiveOrder("block", httpcaddyfile.Before, "redir")
	httpcaddyfile.RegisterDirectiveOrder("rate_limit", httpcaddyfile.Before, "basicauth")
	// A worker that asks may have to say who it is.
	httpcaddyfile.RegisterDirectiveOrder("weir_check", httpcaddyfile.Before, "respond")
}

// parseApp reads the global options:
//
//	weir {
//		redis <address...> {
//			sentinel  <master>
//			cluster
//			tls       { ca <file>, cert <file>, key <file>, server_name <name> }
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
//		block {
//			mode      enforce|dry_run|off
//			allow     <address|cidr...>
//			protect   <address|cidr...>
//			file      <path> { … }
//			url       <address> { … }
//			ip_source <name> { … }
//		}
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
	if err := grammar.App(app).Read(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "weir", Value: caddyconfig.JSON(app, nil)}, nil
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
	if err := grammar.RateLimit(h, rl, &name).Read(h.Dispenser); err != nil {
		return nil, err
	}
	oneLine := len(line.Args) > 0
	switch {
	case oneLine && len(rl.Zones) > 0:
		return nil, line.At.Errorf("has both a one-line rate and zone blocks: make the rate a zone of its own")
	case oneLine:
		if err := grammar.OneLine(h, rl, name, line); err != nil {
			return nil, err
		}
	case name != "":
		return nil, line.At.Errorf("name: names the zone of a one-line rate, and there is none")
	case len(rl.Zones) == 0:
		return nil, line.At.Errorf("limits nothing: needs a rate or a zone block")
	}
	return h.NewRoute(line.Set, handler), nil
}

// parseBlock reads a handler that refuses what its rules match, or addresses, or with
// neither whatever the matcher selects; all of that beside the shared list, and alone only that:
//
//	block [<matcher>] [<address|cidr...>] {
//		mode    enforce|dry_run|off
//		name    <name>
//		rule <name> {
//			host|url|path|method|client_ip|user_agent <pattern...>
//			agent   <name...>
//			query   <pattern>
//			header  <name> <pattern...>
//			source  http|websocket|job
//			message_type|user|handler|args <pattern...>
//			dropped drop|retry <after>|dead_letter
//			scope   all|site <host>
//			note    <text>
//			author  <text>
//			expires <duration|RFC 3339>|never
//			action  <code>|abort|tarpit|mark
//			mode    enforce|dry_run|off
//			dry_run
//		}
//		allow   <address|cidr...>|@<name>|{ <matchers> }
//		respond <code> [<body>]
//		no_shared
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
	if err := grammar.Block(h, b).Read(h.Dispenser); err != nil {
		return nil, err
	}
	if len(b.Ranges) == 0 && len(b.Rules) == 0 && line.Matcher == "" && b.NoShared {
		return nil, line.At.Errorf("refuses nothing: needs a rule, an address, a matcher or the shared list")
	}
	if len(b.Ranges) == 0 && len(b.Rules) == 0 && line.Matcher != "" {
		b.Everything = true
		b.Name = cmp.Or(b.Name, line.Matcher)
	}
	return h.NewRoute(line.Set, handler), nil
}

// parseCheck reads a handler that answers workers:
//
//	weir_check [<matcher>] {
//		allow <address|cidr...>
//	}
func parseCheck(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	line, err := directive.Begin(h)
	if err != nil {
		return nil, err
	}
	if len(line.Args) > 0 {
		return nil, line.At.Errorf("got %q, write \"weir_check [<matcher>]\"", line.Args[0])
	}
	handler := new(Check)
	if err := grammar.Check(&handler.Check).Read(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(line.Set, handler), nil
}

// UnmarshalCaddyfile reads the IP source:
//
//	weir <path|address> {
//		refresh <duration>
//		timeout <duration>
//		header  <name> <value>
//		format  <format>
//		broad
//	}
func (s *IPSource) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	at := directive.Here(d)
	args, err := directive.Words(d)
	if err != nil {
		return err
	}
	if len(args) != 1 {
		return at.Errorf("weir: got %d arguments, write \"weir <path|address>\"", len(args))
	}
	if strings.Contains(args[0], "://") {
		s.URL = args[0]
	} else {
		s.File = args[0]
	}
	return grammar.IPSource(&s.IPSource).Read(d)
}
