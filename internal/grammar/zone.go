package grammar

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
	"github.com/weirhq/caddy-weir/limiter"
)

var (
	algorithms = []string{limiter.SlidingWindow, limiter.SlidingLog, limiter.SlidingCounter, limiter.TokenBucket, limiter.FixedWindow}
	emptyKeys  = []string{"skip", "client_ip", "reject"}
)

// zone holds what a zone block may say.
func zone(h httpcaddyfile.Helper, z *config.Zone) directive.Table {
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
		directive.Instead("max_events", "events <n>"),
		directive.Instead("rate", "limit <rate>"),
		directive.Duration("window", &z.Window),
		directive.OneOf("algorithm", &z.Algorithm, algorithms...),
		directive.Count("burst", "<n>", &z.Burst),
		directive.Duration("min_interval", &z.MinInterval),
		directive.Count("in_flight", "<n>", &z.InFlight),
		directive.Text("cost", "<n|placeholder>", &z.Cost),
		directive.Nested("settle", "", 0, settle(new(config.Settle)), func(b *directive.Body) error {
			z.Settle = new(config.Settle)
			return b.Read(settle(z.Settle))
		}),
		directive.Nested("feed", "", 0, feed(new(config.Feed)), func(b *directive.Body) error {
			z.Feed = new(config.Feed)
			return b.Read(feed(z.Feed))
		}),
		directive.Nested("previews", "", 0, previews(new(config.Previews)), func(b *directive.Body) error {
			z.Previews = new(config.Previews)
			return b.Read(previews(z.Previews))
		}),
		directive.Args("count_rejected", "[<ceiling>]", 0, 1, func(args []string) error {
			if len(args) == 0 {
				z.CountRejected = usualCeiling
				return nil
			}
			return directive.Span(args[0], &z.CountRejected)
		}),
		directive.Count("lease", "<n>", &z.Lease),
		directive.Args("count", "after [<interval>]", 1, 2, func(args []string) error { return countAfter(args, z) }),
		directive.OneOf("on_empty_key", &z.OnEmptyKey, emptyKeys...),
		directive.Count("ipv4_prefix", "<bits>", &z.IPv4Prefix),
		directive.Count("ipv6_prefix", "<bits>", &z.IPv6Prefix),
		directive.RangesOrMatchers("exempt", h, &z.ExemptRanges, &z.Exempt),
		directive.Nested("ban", "", 0, ban(new(config.Ban)), func(b *directive.Body) (err error) {
			z.Ban, err = readBan(b)
			return err
		}),
		directive.Flag("dry_run", &z.DryRun),
	}
}

// settle holds the prices of what became of a request.
func settle(s *config.Settle) directive.Table {
	return directive.Table{
		directive.Each("<status>", "<price>", config.IsStatus, func(word, arg string) error {
			if s.Status == nil {
				s.Status = make(map[string]int64)
			}
			var price int64
			err := directive.Whole(arg, 0, &price)
			s.Status[word] = price
			return err
		}),
		directive.Text("header", "<name>", &s.Header),
		directive.Count("bytes", "<n>", &s.Bytes),
	}
}

// countAfter reads `after [<interval>]`.
func countAfter(args []string, z *config.Zone) error {
	if args[0] != "after" {
		return fmt.Errorf("%q does not fit, write \"count after [<interval>]\"", args[0])
	}
	z.CountAfter = config.DefaultCountAfter
	if len(args) == 1 {
		return nil
	}
	return directive.Span(args[1], &z.CountAfter)
}

// usualCeiling stands for the ceiling of a count_rejected without one while a zone is
// read: the windows may come after it.
const usualCeiling caddy.Duration = -1

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
