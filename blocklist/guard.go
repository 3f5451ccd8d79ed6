package blocklist

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"
)

// A Danger is a rule or a ban of a change that could lock its maker out, or everybody. Whoever
// applies such a change has to insist on it.
type Danger struct {
	// Rule is the rule's name; of a ban it is the address in clear, if that is known, else the key.
	Rule string
	// Why it is dangerous, such as "holds your own address 192.0.2.1".
	Why string
}

// A Guard knows what must not be blocked by mistake. Its zero value knows nothing, and
// still sees rules that match everything.
type Guard struct {
	// Protected are the addresses that are exempt from shared rules and bans: loopback,
	// this machine's own, trusted proxies, admin networks.
	Protected []netip.Prefix
	// Name, if not nil, returns what a ban calls the network of an address, as long as that
	// many bits.
	Name func(network netip.Prefix) string
}

// Check returns what is dangerous in a change, in its order. caller is the address of
// whoever makes it; invalid if that is not known. Rules that are off, in dry run, or only mark
// are not dangerous.
func (g *Guard) Check(c Change, caller netip.Addr) []Danger {
	var found []Danger
	for i := range c.Put {
		found = append(found, g.checkRule(&c.Put[i], caller)...)
	}
	for i := range c.Ban {
		found = append(found, g.checkBan(&c.Ban[i], caller)...)
	}
	return found
}

// CheckIn is Check for a change that may take back another one, which the keeper of the list knows:
// what was dangerous once is dangerous again.
func (g *Guard) CheckIn(ctx context.Context, k Keeper, c Change, caller netip.Addr) ([]Danger, error) {
	if c.Undo == 0 {
		return g.Check(c, caller), nil
	}
	trail, err := k.Trail(ctx, MaxTrail)
	if err != nil {
		return nil, err
	}
	for i := range trail {
		if trail[i].Version == c.Undo {
			return g.Check(trail[i].Undo, caller), nil
		}
	}
	return nil, nil // and the keeper refuses it
}

// strangers are requests that have in common what all requests have, and no more.
var strangers = []Request{
	{Host: "a.example", URL: "/", Path: "/", Method: "GET", Client: netip.MustParseAddr("192.0.2.1")},
	{
		Host: "www.b.test", URL: "/wq/x-7.html?k=v", Path: "/wq/x-7.html", Query: "k=v", Method: "POST", Client: netip.MustParseAddr("2001:db8::1"),
		Header: map[string][]string{"User-Agent": {"Mozilla/5.0"}},
	},
}

// hitsStrangers reports whether a rule looks at something, and still matches every stranger.
func (c *compiled) hitsStrangers() bool {
	rule := *c.rule
	if len(c.conditions) == 0 || rule.Source == Job {
		return false
	}
	rule.Expires = time.Time{}
	set, err := NewSet([]Rule{rule})
	if err != nil {
		return false
	}
	for _, r := range strangers {
		r.Source = max(rule.Source, HTTP)
		if c.site != nil {
			r.Host = rule.Scope.Name
		}
		if set.Hit(&r, time.Time{}) == nil {
			return false
		}
	}
	return true
}

func (g *Guard) checkRule(r *Rule, caller netip.Addr) []Danger {
	c, err := compile(r, newSlots())
	if err != nil || r.Mode != Enforce || r.Action == Mark {
		return nil
	}
	danger := func(format string, args ...any) []Danger {
		return []Danger{{r.Name, fmt.Sprintf(format, args...)}}
	}
	if c.everything() || c.hitsStrangers() {
		switch {
		case r.Source == Job:
			return danger("drops every background job")
		case c.site != nil:
			return danger("matches every request to %s", r.Scope.Name)
		case r.Source != AnySource:
			return danger("matches every request of source %s", r.Source)
		}
		return danger("matches every request")
	}
	caller = Plain(caller)
	for _, p := range c.ranges {
		if caller.IsValid() && p.Contains(caller) {
			return danger("%s holds your own address %s", p, caller)
		}
	}
	for _, p := range c.ranges {
		if broad(p) {
			return danger("%s is a large part of all addresses", p)
		}
	}
	for _, p := range c.ranges {
		for _, protected := range g.Protected {
			if p.Overlaps(protected) {
				if p == protected {
					return danger("%s is protected", p)
				}
				return danger("%s holds protected addresses, of %s", p, protected)
			}
		}
	}
	return nil
}

// broad reports whether a range is shorter than any network that is given to one owner: /8 of IPv4,
// /19 of IPv6.
func broad(p netip.Prefix) bool {
	return p.Addr().Is4() && p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 19
}

func (g *Guard) checkBan(b *Ban, caller netip.Addr) []Danger {
	if b.Bits == 0 {
		return nil
	}
	danger := func(format string, args ...any) []Danger {
		return []Danger{{cmp.Or(b.Evidence.Client, b.Key), fmt.Sprintf(format, args...)}}
	}
	network, named := b.network()
	is := func(a netip.Addr) bool {
		if named {
			return network.Contains(a)
		}
		tried, err := a.Prefix(b.Bits)
		return err == nil && g.Name != nil && g.Name(tried) == b.Key
	}
	if caller = Plain(caller); caller.IsValid() && is(caller) {
		if named && !network.IsSingleIP() {
			return danger("holds your own address %s", caller)
		}
		return danger("is your own address %s", caller)
	}
	// Of a hash the family is not known: what is short for IPv4 is so for IPv6 as well.
	if named && broad(network) || b.Bits < 8 {
		return danger("is a large part of all addresses")
	}
	for _, p := range g.Protected {
		// Of a range only its networks of the key's length can be tried, and only the first of them
		// is: this is for loopback and for single machines.
		if named && network.Overlaps(p) || p.Bits() >= b.Bits && is(p.Addr()) {
			return danger("is the network of protected addresses, %s", p)
		}
	}
	return nil
}
