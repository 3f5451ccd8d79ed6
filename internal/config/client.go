package config

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// ClientIP returns the address of the client behind a request: what the server's
// trusted proxies say, else the peer's own. It is the one resolver of both handlers.
//
// The address has one form however it was written, see [blocklist.Plain]. It is invalid
// when there is none, as for peers on unix sockets.
func ClientIP(r *http.Request) netip.Addr {
	// Headers are never read here: the server has done so, as far as the peer may
	// be trusted.
	if text, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok {
		return parseAddr(text)
	}
	return parseAddr(r.RemoteAddr)
}

// parseAddr reads an address with or without port, in any notation, and gives it its one
// form. What is not an address is invalid.
func parseAddr(text string) netip.Addr {
	if strings.HasPrefix(text, "[") || strings.Count(text, ":") == 1 {
		ap, _ := netip.ParseAddrPort(text)
		return blocklist.Plain(ap.Addr())
	}
	a, _ := netip.ParseAddr(text)
	return blocklist.Plain(a)
}

// prefixBits says how many leading bits of an address make a client. An IPv6 customer
// is usually given a whole /64, and may use any address of it.
type prefixBits struct {
	v4, v6 int
}

// mask returns the network of a valid address in its one form.
func (b prefixBits) mask(a netip.Addr) netip.Prefix {
	bits := b.v6
	if a.Is4() {
		bits = b.v4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(a, a.BitLen())
	}
	return p
}

// appendNetwork appends the text of an address' network to dst: 192.0.2.1 where every
// bit counts, else 2001:db8:1:2::/64. An invalid address has none.
func (b prefixBits) appendNetwork(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return dst
	}
	p := b.mask(a)
	if p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}
