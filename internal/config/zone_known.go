package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// knownZones are the zones of a configuration by name. It is safe for concurrent use.
type knownZones struct {
	mu    sync.Mutex
	zones map[string]*zoneMeter
}

// add makes a zone known. Zones of one name are one zone.
func (k *knownZones) add(m *zoneMeter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.zones == nil {
		k.zones = make(map[string]*zoneMeter)
	}
	k.zones[m.seen.Name] = m
}

// A KnownZone is a zone of the configuration that runs, for who asks about it from outside of a request.
type KnownZone struct {
	m    *zoneMeter
	book *bans
}

// Zone returns the zone of that name; false if the configuration has none.
func (s *Shared) Zone(name string) (KnownZone, bool) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	m := s.known.zones[name]
	return KnownZone{m, s.bans}, m != nil
}

// ZoneNames returns the names of all zones, in order.
func (s *Shared) ZoneNames() []string {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	return slices.Sorted(maps.Keys(s.known.zones))
}

// Network returns the network that stands for a client: its IPv4 address, or its IPv6 network
// as long as the app's ip_prefix says.
func (s *Shared) Network(client netip.Addr) netip.Prefix {
	return prefixBits{client.BitLen(), s.app.IPv6Prefix}.mask(client)
}

// CheckKey says why no ban can be made of a key that is given as one text; nil if it can.
func (z KnownZone) CheckKey() error {
	if n := len(z.m.key.parts); n > 1 {
		return fmt.Errorf("zone %q counts by %d parts together, which cannot be named: ban the client, with the scope all or site:NAME", z.m.seen.Name, n)
	}
	return nil
}

// Fit returns the network around a client by which the zone counts, which only a ban of just that network
// meets. What is wider can be banned if the zone's bans roll up to it. An error says why there is none.
func (z KnownZone) Fit(client netip.Prefix) (netip.Prefix, error) {
	name := z.m.seen.Name
	if err := z.CheckKey(); err != nil {
		return netip.Prefix{}, err
	}
	if !z.m.key.isClient() {
		return netip.Prefix{}, fmt.Errorf("zone %q counts by another key than the client's address: name that key", name)
	}
	own := z.m.key.bits.mask(client.Addr())
	if client.Bits() >= own.Bits() || z.rollsUpTo(client) {
		return netip.PrefixFrom(client.Addr(), min(own.Bits(), client.Bits())).Masked(), nil
	}
	return netip.Prefix{}, fmt.Errorf("%s is wider than the /%d by which zone %q counts: ban it with the scope all or site:NAME", client, own.Bits(), name)
}

func (z KnownZone) rollsUpTo(network netip.Prefix) bool {
	if z.m.ban == nil || z.m.ban.conf.Rollup == nil {
		return false
	}
	if network.Addr().Is4() {
		return slices.Contains(z.m.ban.conf.Rollup.IPv4, network.Bits())
	}
	return slices.Contains(z.m.ban.conf.Rollup.IPv6, network.Bits())
}

// Spares says why the zone does not refuse a request although its client is banned from it; empty if it
// does refuse it. The zone's handler may be one that the request never reaches: that is not looked at.
func (z KnownZone) Spares(q *blocklist.Request) string {
	applies, exempt, err := z.meets(q)
	switch {
	case err != nil:
		return fmt.Sprintf("whether the request is the zone's cannot be told: %v", err)
	case !applies:
		return "the request is not the zone's"
	case exempt:
		return "the request is exempt from the zone"
	case z.m.spares(z.book, q.Client):
		return "the zone bans no such address"
	case z.m.shadow:
		return "the zone is in dry run"
	}
	return ""
}

// meets asks the zone's matchers about a request that is only described. They are modules of anybody, and
// may want more of a request than a description has.
func (z KnownZone) meets(q *blocklist.Request) (applies, exempt bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a matcher fails: %v", v)
		}
	}()
	r := &http.Request{
		Method: cmp.Or(q.Method, http.MethodGet), Host: q.Host, Header: http.Header(q.Header).Clone(),
		URL: &url.URL{Path: q.Path, RawQuery: q.Query}, RequestURI: q.URL,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
		RemoteAddr: net.JoinHostPort(q.Client.String(), "0"),
	}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, new(caddyhttp.Server))
	return z.m.applies(r, q.Client)
}
