package config

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// A proxyLint looks at live requests for signs that clients are not who they seem: no
// configuration shows what stands before the server. It warns once of each.
type proxyLint struct {
	untold atomic.Bool // a proxy that is not trusted
	loose  atomic.Bool // a trusted proxy whose word is not checked
	unread atomic.Bool // a trusted proxy whose word Caddy passes over
}

// check looks at one request.
func (l *proxyLint) check(r *http.Request, logger *zap.Logger) {
	if l.untold.Load() && l.loose.Load() && l.unread.Load() || !isForwarded(r.Header) {
		return
	}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if trusted {
		server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
		switch {
		case !ok:
		case server.TrustedProxiesStrict == 0:
			if l.loose.CompareAndSwap(false, true) {
				logger.Warn("trusted_proxies without trusted_proxies_strict: clients can choose their own address",
					zap.String("server", server.Name()))
			}
		case !l.unread.Load() && !isReadable(nearestHop(r.Header, server.ClientIPHeaders)) && l.unread.CompareAndSwap(false, true):
			logger.Warn("a trusted proxy names its client in a form that Caddy cannot read: the entry before it counts, which clients can choose",
				zap.String("server", server.Name()))
		}
		return
	}
	if isNearby(parseAddr(r.RemoteAddr)) && l.untold.CompareAndSwap(false, true) {
		logger.Warn("a proxy forwards requests and is not in trusted_proxies: all its clients count as one",
			zap.String("proxy", r.RemoteAddr))
	}
}

// isForwarded reports whether a proxy says whom a request comes from.
func isForwarded(h http.Header) bool {
	return len(h["X-Forwarded-For"]) > 0 || len(h["Forwarded"]) > 0 ||
		len(h["X-Real-Ip"]) > 0 || len(h["Cf-Connecting-Ip"]) > 0
}

// nearestHop returns what the nearest proxy says of its client: the last entry of the first
// of these headers that there is.
func nearestHop(h http.Header, names []string) string {
	for _, name := range names {
		if lines := h[http.CanonicalHeaderKey(name)]; len(lines) > 0 {
			last := lines[len(lines)-1]
			return last[strings.LastIndexByte(last, ',')+1:]
		}
	}
	return ""
}

// isReadable reports whether Caddy finds an address in an entry, which may have a port. It
// does not in brackets that follow a blank or have no port, as in ", [2001:db8::1]:80".
func isReadable(entry string) bool {
	host := strings.TrimSpace(entry)
	if _, err := netip.ParseAddr(host); host == "" || err == nil {
		return true
	}
	if split, _, err := net.SplitHostPort(entry); err == nil {
		host = strings.TrimSpace(split)
	}
	host, _, _ = strings.Cut(host, "%")
	_, err := netip.ParseAddr(host)
	return err == nil
}

// carrierNAT is the shared address space of RFC 6598, which tunnels use as well.
var carrierNAT = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)

// isNearby reports whether a peer's address is one that no client on the internet has.
// A peer without an address comes through a unix socket.
func isNearby(a netip.Addr) bool {
	return !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || carrierNAT.Contains(a)
}
