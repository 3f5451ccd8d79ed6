package grammar

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

var modes = []string{"enforce", "dry_run", "off"}

// Block is the table of a block directive's block.
func Block(h httpcaddyfile.Helper, b *config.Block) directive.Table {
	return directive.Table{
		directive.OneOf("mode", &b.Mode, modes...),
		directive.Instead("enforce", "mode enforce"),
		directive.Instead("dry_run", "mode dry_run"),
		directive.Instead("off", "mode off"),
		directive.Text("name", "<name>", &b.Name),
		directive.Named("rule", rule(new(config.Rule)), func(body *directive.Body) error {
			r := config.Rule{Name: body.Args[0]}
			err := body.Read(rule(&r))
			b.Rules = append(b.Rules, r)
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

// rule holds what a rule of a block may say.
func rule(r *config.Rule) directive.Table {
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
		directive.Many(directive.Texts("agent", "<name...>", &r.Agent)),
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
		directive.Args("action", "<code>|abort|tarpit|mark", 1, 1, func(args []string) error {
			return r.Action.UnmarshalText([]byte(args[0]))
		}),
		directive.Flag("dry_run", &r.DryRun),
	}
}
