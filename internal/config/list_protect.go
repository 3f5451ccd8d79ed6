package config

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// protection knows the addresses that shared rules and bans never concern: loopback, this machine's
// own, admin networks, what is allowed, and trusted proxies. It is safe for concurrent use.
//
// Which proxies a server trusts only the server can say, and only of one that is there: they are learnt
// from requests. A proxy comes before anybody can be taken for it.
type protection struct {
	ranges  *blocklist.Prefixes
	list    []netip.Prefix
	allowed *blocklist.Prefixes

	learning sync.Mutex
	proxies  atomic.Pointer[map[netip.Addr]struct{}]
}

// loopbacks are protected, and so is the address of nobody, by which a machine reaches itself too.
var loopbacks = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("0.0.0.0/32"), netip.MustParsePrefix("::/128"),
}

// maxProxies is the most trusted proxies that are learnt.
const maxProxies = 10_000

// newProtection protects admin networks and what is allowed, both valid, beside what always is.
func newProtection(admin, allowed []string) *protection {
	p := &protection{list: append(ownAddresses(), loopbacks...)}
	texts := append([]string(nil), admin...)
	for _, text := range admin {
		if prefix, err := blocklist.ParsePrefix(text); err == nil {
			p.list = append(p.list, prefix)
		}
	}
	for _, prefix := range p.list {
		texts = append(texts, prefix.String())
	}
	p.ranges, _ = blocklist.ParsePrefixes(texts)
	p.allowed, _ = blocklist.ParsePrefixes(allowed)
	p.proxies.Store(&map[netip.Addr]struct{}{})
	return p
}

// ownAddresses are those of this machine's interfaces.
func ownAddresses() []netip.Prefix {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // without any, there is no network either
	}
	var own []netip.Prefix
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(ip.IP); ok {
				addr = blocklist.Plain(addr)
				own = append(own, netip.PrefixFrom(addr, addr.BitLen()))
			}
		}
	}
	return own
}

// holds reports whether a plain address is protected or allowed.
func (p *protection) holds(a netip.Addr) bool {
	return p.ranges.Contains(a) || p.isProxy(a) || p.allowed.Contains(a)
}

func (p *protection) isProxy(a netip.Addr) bool {
	proxies := *p.proxies.Load()
	if len(proxies) == 0 {
		return false
	}
	_, known := proxies[a]
	return known
}

// learn notes the peer of a request if its server trusts it.
func (p *protection) learn(r *http.Request) {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); !trusted {
		return
	}
	peer := parseAddr(r.RemoteAddr)
	if !peer.IsValid() || p.isProxy(peer) || p.ranges.Contains(peer) {
		return
	}
	p.learning.Lock()
	defer p.learning.Unlock()
	if known := *p.proxies.Load(); len(known) < maxProxies {
		next := maps.Clone(known)
		next[peer] = struct{}{}
		p.proxies.Store(&next)
	}
}

// all returns all that is protected, the proxies as far as they are known.
func (p *protection) all() []netip.Prefix {
	all := append([]netip.Prefix(nil), p.list...)
	for a := range *p.proxies.Load() {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return all
}

// Protected reports whether shared rules and bans never concern an address: loopback, this
// machine's own, admin networks, what the shared list allows, and trusted proxies that have been
// seen.
func (s *Shared) Protected(a netip.Addr) bool { return s.list.protection.holds(blocklist.Plain(a)) }
