package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/aggregator"
)

// Aggregators are services that fetch a feed for many readers at once. One that is verified has
// one key, its name, over all its addresses; its budgets are multiplied by a factor that grows
// with the subscribers it states; and the zone neither counts it for bans nor bans it. Who only
// pretends to be one is treated as all others.
type Aggregators struct {
	// Scale says how the factor grows with n subscribers: `log2` (1 + log2 n) or `sqrt` (the
	// square root of n), rounded down. Default: `log2`.
	Scale string `json:"scale,omitempty"`
	// Max is the highest factor, 1 to 1,000. Default: 10.
	Max int `json:"max,omitempty"`
	// Resolvers are the DNS servers that are asked for names of addresses, by IP address with
	// or without port. Default: the system's.
	Resolvers []string `json:"resolvers,omitempty"`
	// Known are the services. Of several whose agent fits the first one that is verified
	// counts.
	Known []Aggregator `json:"known,omitempty"`
}

// Aggregator is one service. It is verified by its address: in Ranges, in a file of ranges, or
// by forward-confirmed reverse DNS. At least one of these is required.
type Aggregator struct {
	// Name of the service, in the log and as its key. Required.
	Name string `json:"name"`
	// Agents are patterns of its User-Agent, with * for any text; upper and lower case
	// differ. One has to fit. Required.
	Agents []string `json:"agents"`
	// Ranges are the addresses and CIDR ranges that it publishes.
	Ranges []string `json:"ranges,omitempty"`
	// Files are lists of them on disk, in any format of addresses that block lists have,
	// such as the JSON that crawlers publish. They are looked at each second. Placeholders
	// are replaced.
	Files []string `json:"files,omitempty"`
	// DNS are domains, with all below them: an address is the service's if it has a name in
	// one of them that leads back to the address.
	DNS []string `json:"dns,omitempty"`
}

// What Aggregators' zero values stand for.
const defaultMaxScale = 10

// aggregatorMark begins the keys of aggregators, and no others: no address begins with a
// space, and so no key that stands in for an empty one does behind its mark.
const aggregatorMark = string(fallbackMark) + " "

func (a *Aggregators) resolved() *Aggregators {
	if a == nil {
		return nil
	}
	c := *a
	setDefault(&c.Scale, aggregator.Scales[0])
	setDefault(&c.Max, defaultMaxScale)
	return &c
}

// check says what is wrong with aggregators whose defaults are filled in.
func (a *Aggregators) check(r report) {
	if a == nil {
		return
	}
	r.in("scale").oneOf(a.Scale, aggregator.Scales...)
	r.in("max").between(a.Max, 1, maxFactor)
	_, err := resolverAddresses(a.Resolvers)
	r.in("resolvers").problem(err)
	if len(a.Known) == 0 {
		r.problemf("must name an aggregator")
	}
	names := make(map[string]bool)
	for i := range a.Known {
		one := &a.Known[i]
		at := r.in("aggregator %q", one.Name)
		if names[one.Name] {
			at.problemf("there are two of this name")
		}
		names[one.Name] = true
		one.check(at)
	}
}

func (a *Aggregator) check(r report) {
	checkName(r, a.Name)
	if len(a.Agents) == 0 {
		r.in("agent").problemf("is missing, say what its User-Agent looks like")
	}
	_, err := a.patterns()
	r.in("agent").problem(err)
	if len(a.Ranges)+len(a.Files)+len(a.DNS) == 0 {
		r.problemf("cannot be verified: write its ranges, a file of them, or dns with the domain of its names")
	}
	_, err = parseRanges(a.Ranges)
	r.in("ranges").problem(err)
	if slices.Contains(a.Files, "") {
		r.in("file").problemf("must have a path")
	}
	domains, err := aggregator.ParseDomains(a.DNS)
	r.in("dns").problem(err)
	for _, domain := range domains.Rented() {
		r.in("dns").warn(domain + " is where anybody can rent an address, which proves nothing: use ranges, or a domain of the service itself")
	}
}

// patterns compiles what the User-Agent looks like.
func (a *Aggregator) patterns() (all []blocklist.Pattern, err error) {
	var problems []error
	for _, text := range a.Agents {
		p, err := blocklist.ParsePattern(text)
		switch {
		case err != nil:
		case text == "":
			err = errors.New("must not be empty")
		case p.Any():
			err = errors.New("fits everybody: say what is in the agent")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%q: %w", text, err))
		}
		all = append(all, p)
	}
	return all, errors.Join(problems...)
}

// parseRanges reads ranges, none of which may be all addresses.
func parseRanges(texts []string) (*blocklist.Prefixes, error) {
	set, err := blocklist.ParsePrefixes(texts)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		if p, err := blocklist.ParsePrefix(text); err == nil && p.Bits() == 0 {
			return nil, fmt.Errorf("%q: is everybody", text)
		}
	}
	return set, nil
}

// resolverAddresses reads the addresses of DNS servers and adds the port where there is none.
func resolverAddresses(texts []string) (all []string, err error) {
	const port = 53
	for _, text := range texts {
		if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
			all = append(all, netip.AddrPortFrom(a, port).String())
			continue
		}
		at, err := netip.ParseAddrPort(text)
		if err != nil || at.Port() == 0 {
			return nil, fmt.Errorf("%q: must be an IP address, with or without port", text)
		}
		all = append(all, at.String())
	}
	return all, nil
}
