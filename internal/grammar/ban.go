package grammar

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// scopes are what a ban may reach.
var scopes = []string{"zone", "site", "all"}

// ban holds what a zone's ban block may say.
func ban(b *config.Ban) directive.Table {
	return directive.Table{
		directive.Args("after", "<rate>", 1, 1, func(args []string) (err error) {
			b.Events, b.Window, err = directive.Rate(args[0])
			return err
		}),
		directive.Texts("count", "requests|refusals|<status...>", &b.Count),
		directive.Duration("for", &b.For),
		directive.Args("grow", "<factor> [max <duration>]", 1, 3, func(args []string) error {
			if err := factor(args[0], &b.Grow); err != nil {
				return err
			}
			switch {
			case len(args) == 1:
				return nil
			case len(args) == 3 && args[1] == "max":
				return directive.Span(args[2], &b.Max)
			}
			return fmt.Errorf(`%q does not fit, write "grow <factor> [max <duration>]"`, args[1])
		}),
		directive.Duration("quiet", &b.Quiet),
		directive.Args("rolling", "[<ceiling>]", 0, 1, func(args []string) error {
			if len(args) == 0 {
				b.Rolling = usualCeiling
				return nil
			}
			return directive.Span(args[0], &b.Rolling)
		}),
		directive.Args("spread", "<fraction>", 1, 1, func(args []string) error {
			b.Spread = new(float64) // zero is not the default
			return number(args[0], b.Spread)
		}),
		directive.OneOf("scope", &b.Scope, scopes...),
		directive.Args("rollup", "<neighbours> [ipv4 <bits...>] [ipv6 <bits...>]", 1, -1, func(args []string) (err error) {
			b.Rollup, err = parseRollup(args)
			return err
		}),
		directive.Nested("people", "", 0, crowd(new(config.People)), func(body *directive.Body) error {
			b.People = new(config.People)
			return body.Read(crowd(b.People))
		}),
		directive.Count("status", "<code>", &b.Status),
		directive.Flag("private_ranges", &b.PrivateRanges),
		directive.Flag("dry_run", &b.DryRun),
	}
}

// readBan reads a ban block.
func readBan(body *directive.Body) (*config.Ban, error) {
	b := new(config.Ban)
	if err := body.Read(ban(b)); err != nil {
		return nil, err
	}
	if b.Rolling == usualCeiling {
		b.Rolling = b.UsualRolling()
	}
	return b, nil
}

// crowd holds what a people block may say.
func crowd(p *config.People) directive.Table {
	return directive.Table{
		directive.Text("user", "<placeholder>", &p.User),
		directive.Args("per_user", "<people>", 1, 1, func(args []string) error {
			return factor(args[0], &p.PerUser)
		}),
		directive.Count("max", "<factor>", &p.Max),
		directive.Many(directive.Args("override", "<address|cidr> <factor> [note <text>] [expires <duration|RFC 3339>]", 2, 6,
			func(args []string) error {
				o, err := parseOverride(args)
				p.Overrides = append(p.Overrides, o)
				return err
			})),
	}
}

// parseRollup reads `<neighbours> [ipv4 <bits...>] [ipv6 <bits...>]`.
func parseRollup(args []string) (*config.Rollup, error) {
	u := new(config.Rollup)
	if err := directive.Whole(args[0], 1, &u.Neighbours); err != nil {
		return nil, err
	}
	var into *[]int
	for _, word := range args[1:] {
		switch {
		case word == "ipv4" && u.IPv4 == nil:
			into = &u.IPv4
		case word == "ipv6" && u.IPv6 == nil:
			into = &u.IPv6
		case into == nil:
			return nil, fmt.Errorf(`%q does not fit, write "rollup <neighbours> [ipv4 <bits...>] [ipv6 <bits...>]"`, word)
		default:
			var bits int
			if err := directive.Whole(word, 1, &bits); err != nil {
				return nil, err
			}
			*into = append(*into, bits)
		}
	}
	if last := args[len(args)-1]; last == "ipv4" || last == "ipv6" {
		return nil, fmt.Errorf("%s: needs the bits of the networks", last)
	}
	return u, nil
}

// parseOverride reads `<address|cidr> <factor> [note <text>] [expires <time>]`, the latter two
// in any order.
func parseOverride(args []string) (o config.Override, err error) {
	var ranges []string
	if err := directive.AppendRanges(&ranges, args[:1]); err != nil {
		return o, err
	}
	if o.Range = args[0]; !slices.Equal(ranges, args[:1]) {
		return o, fmt.Errorf("must be one address or CIDR range, got %q", args[0])
	}
	if err := directive.Whole(args[1], 1, &o.Factor); err != nil {
		return o, fmt.Errorf("factor: %w", err)
	}
	for rest := args[2:]; len(rest) > 0; rest = rest[min(2, len(rest)):] {
		switch {
		case len(rest) > 1 && rest[0] == "note" && o.Note == "" && rest[1] != "":
			o.Note = rest[1]
		case len(rest) > 1 && rest[0] == "expires" && o.Expires == "" && rest[1] != "":
			o.Expires = rest[1]
		default:
			return o, fmt.Errorf(`%q does not fit, write "override <address|cidr> <factor> [note <text>] [expires <duration|RFC 3339>]"`, rest[0])
		}
	}
	return o, nil
}

// factor reads a number above zero, which stands for the default.
func factor(text string, into *float64) error {
	if err := number(text, into); err != nil {
		return err
	}
	if *into <= 0 {
		return fmt.Errorf("must be above 0, got %s", text)
	}
	return nil
}

// number reads a number such as 1.5.
func number(text string, into *float64) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("must be a number such as 1.5, got %q", text)
	}
	*into = f
	return nil
}
