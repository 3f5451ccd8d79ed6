package config

import (
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// A proxyLint looks at live requests for signs that clients are not who they seem: no
// configuration shows what stands before the server. It warns once of each.
type proxyLint struct {
	untold atomic.Bool // a proxy that is not trusted
	loose  atomic.Bool // a trusted proxy whose word is not checked
}

// check looks at one request.
func (l *proxyLint) check(r *http.Request, logger *zap.Logger) {
	if l.untold.Load() && l.loose.Load() || !isForwarded(r.Header) {
		return
	}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if trusted {
		server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
		if ok && server.TrustedProxiesStrict == 0 && l.loose.CompareAndSwap(false, true) {
			logger.Warn("trusted_proxies without trusted_proxies_strict: clients can choose their own address",
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

// carrierNAT is the shared address space of RFC 6598, which tunnels use as well.
var carrierNAT = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10)

// isNearby reports whether a peer's address is one that no client on the internet has.
// A peer without an address comes through a unix socket.
func isNearby(a netip.Addr) bool {
	return !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || carrierNAT.Contains(a)
}
