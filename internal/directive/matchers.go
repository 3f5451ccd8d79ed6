package directive

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Matchers is an option with a block of request matchers, all of which must match, or
// the name of a matcher (@api), or a path. It may stand many times; one of them is
// then enough.
func Matchers(name string, h httpcaddyfile.Helper, target *caddyhttp.RawMatcherSets) Option {
	usage := "@<name>|/<path>|{ <matchers> }"
	return Option{Name: name, Usage: usage, Many: true, read: func(d *caddyfile.Dispenser) error {
		return readMatchers(d, h, name, usage, target)
	}}
}

// RangesOrMatchers is an option with either addresses and CIDR ranges or request
// matchers, as of [Matchers]. It may stand many times.
func RangesOrMatchers(name string, h httpcaddyfile.Helper, ranges *[]string, sets *caddyhttp.RawMatcherSets) Option {
	usage := "<address|cidr...>|@<name>|/<path>|{ <matchers> }"
	addresses := Args(name, usage, 1, -1, func(args []string) error {
		return AppendRanges(ranges, args)
	})
	return Option{Name: name, Usage: usage, Many: true, read: func(d *caddyfile.Dispenser) error {
		if word, ok := peek(d); ok && !isMatcher(word) {
			return addresses.read(d)
		}
		return readMatchers(d, h, name, usage, sets)
	}}
}

func readMatchers(d *caddyfile.Dispenser, h httpcaddyfile.Helper, name, usage string, target *caddyhttp.RawMatcherSets) error {
	var set caddy.ModuleMap
	var err error
	at := Here(d)
	if word, ok := peek(d); ok && isMatcher(word) {
		if set, _, err = h.WithDispenser(d).MatcherToken(); err != nil {
			return d.Errf("%s: %w", name, err)
		}
		if extra, err := Words(d); err != nil || len(extra) > 0 || opensBlock(d) {
			return at.Errorf("%s: got more than a matcher, write %q", name, name+" "+usage)
		}
	} else if set, err = caddyhttp.ParseCaddyfileNestedMatcherSet(d); err != nil {
		if strings.Contains(err.Error(), ", at ") {
			return fmt.Errorf("%s: %w", name, err)
		}
		return at.Errorf("%s: %w", name, err)
	}
	if len(set) == 0 {
		return at.Errorf("%s: got no matcher, write %q", name, name+" "+usage)
	}
	*target = append(*target, set)
	return nil
}

func isMatcher(word string) bool {
	return word == "*" || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "@")
}

// peek returns the next argument on the line without taking it.
func peek(d *caddyfile.Dispenser) (string, bool) {
	if !d.NextArg() {
		return "", false
	}
	word := d.Val()
	d.Prev()
	return word, true
}
