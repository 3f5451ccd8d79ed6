package grammar

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
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
		directive.Flag("no_shared", &b.NoShared),
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
		directive.OneOf("source", &r.Source, "http", "websocket", "job"),
		patterns("message_type", &r.MessageType),
		patterns("user", &r.User),
		patterns("handler", &r.Handler),
		patterns("args", &r.Args),
		directive.Args("dropped", "drop|retry <after>|dead_letter", 1, 2, func(args []string) error {
			r.Dropped = strings.Join(args, ":")
			return nil
		}),
		directive.Args("scope", "all|site <host>", 1, 2, func(args []string) error {
			r.Scope = strings.Join(args, ":")
			return nil
		}),
		directive.Text("note", "<text>", &r.Note),
		directive.Text("author", "<text>", &r.Author),
		directive.Text("expires", "<duration|RFC 3339>|never", &r.Expires),
		directive.Args("action", "<code>|abort|tarpit|mark", 1, 1, func(args []string) error {
			return r.Action.UnmarshalText([]byte(args[0]))
		}),
		directive.OneOf("mode", &r.Mode, modes...),
		directive.Flag("dry_run", &r.DryRun),
	}
}

// sharedBlock is the table of the shared list.
func sharedBlock(b *config.SharedBlock) directive.Table {
	return directive.Table{
		directive.OneOf("mode", &b.Mode, modes...),
		directive.Many(directive.Args("allow", "<address|cidr...>", 1, -1, func(args []string) error {
			return directive.AppendRanges(&b.Allow, args)
		})),
		directive.Many(directive.Args("protect", "<address|cidr...>", 1, -1, func(args []string) error {
			return directive.AppendRanges(&b.Protect, args)
		})),
		directive.Many(directive.Nested("file", "<path>", 1, listFile(new(config.ListFile)), func(body *directive.Body) error {
			f := config.ListFile{Path: body.Args[0]}
			err := body.Read(listFile(&f))
			b.Files = append(b.Files, f)
			return err
		})),
		directive.Many(directive.Nested("url", "<address>", 1, listURL(new(config.ListURL)), func(body *directive.Body) error {
			u := config.ListURL{URL: body.Args[0]}
			err := body.Read(listURL(&u))
			b.URLs = append(b.URLs, u)
			return err
		})),
		directive.Many(directive.Nested("ip_source", "<name>", 1, listModule(new(config.ListModule)), func(body *directive.Body) error {
			var m config.ListModule
			err := body.Read(listModule(&m))
			m.Name = body.Args[0]
			b.IPSources = append(b.IPSources, m)
			return err
		})),
	}
}

func listModule(m *config.ListModule) directive.Table {
	return append(directive.Table{
		directive.Module("source", "http.ip_sources", "source", &m.Source),
	}, listTreatment(&m.ListOptions)...)
}

// IPSource is the table of the block of the IP source weir.
func IPSource(s *config.IPSource) directive.Table {
	return append(download(&s.Refresh, &s.Timeout, &s.Header),
		format(&s.Format),
		directive.Flag("broad", &s.Broad),
	)
}

func listFile(f *config.ListFile) directive.Table { return listOptions(&f.ListOptions) }

func listURL(u *config.ListURL) directive.Table {
	return append(download(&u.Refresh, &u.Timeout, &u.Header), listOptions(&u.ListOptions)...)
}

// download holds what is said of a list on the web.
func download(refresh, timeout *caddy.Duration, header *map[string][]string) directive.Table {
	return directive.Table{
		directive.Duration("refresh", refresh),
		directive.Duration("timeout", timeout),
		directive.Many(directive.Args("header", "<name> <value>", 2, 2, func(args []string) error {
			if *header == nil {
				*header = make(map[string][]string)
			}
			name := http.CanonicalHeaderKey(args[0])
			(*header)[name] = append((*header)[name], args[1])
			return nil
		})),
	}
}

// listOptions holds what files and lists on the web have in common.
func listOptions(o *config.ListOptions) directive.Table {
	return append(directive.Table{
		directive.Text("name", "<name>", &o.Name),
		format(&o.Format),
	}, listTreatment(o)...)
}

// format is the format of a list.
func format(target *string) directive.Option {
	return directive.Args("format", "<format>", 1, 1, func(args []string) error {
		*target = args[0]
		return directive.Choose(args[0], config.ListFormats)
	})
}

// listTreatment holds what is done with any list, whoever keeps it.
func listTreatment(o *config.ListOptions) directive.Table {
	return directive.Table{
		directive.Args("action", "<code>|abort|tarpit|mark", 1, 1, func(args []string) error {
			return o.Action.UnmarshalText([]byte(args[0]))
		}),
		directive.Flag("dry_run", &o.DryRun),
		directive.Duration("expires", &o.Expires),
		directive.Count("max_entries", "<n>", &o.MaxEntries),
		directive.Flag("accept_shrunken", &o.AcceptShrunken),
		directive.Count("max_cover", "<n>", &o.MaxCover),
		directive.Flag("accept_grown", &o.AcceptGrown),
		directive.Flag("broad", &o.Broad),
		directive.Count("ipv6_prefix", "<bits>", &o.IPv6Prefix),
		directive.Flag("keep_private", &o.KeepPrivate),
	}
}
