package config

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// B19: what stands before a server shows only in its requests.
func TestProxyLint(t *testing.T) {
	const (
		untold = "a proxy forwards requests and is not in trusted_proxies"
		loose  = "trusted_proxies without trusted_proxies_strict"
	)
	for _, test := range []struct {
		name    string
		peer    string
		header  string
		trusted bool
		strict  int
		want    string
	}{
		{"direct", "10.0.0.7:999", "", false, 0, ""},
		{"private proxy", "10.0.0.7:999", "X-Forwarded-For", false, 0, untold},
		{"tunnel", "[::1]:999", "Cf-Connecting-Ip", false, 0, untold},
		{"mapped", "[::ffff:192.168.1.1]:999", "Forwarded", false, 0, untold},
		{"carrier", "100.100.0.1:999", "X-Real-Ip", false, 0, untold},
		{"unix socket", "@", "X-Forwarded-For", false, 0, untold},
		// Anybody may send the header.
		{"stranger", "203.0.113.7:999", "X-Forwarded-For", false, 0, ""},
		{"trusted and strict", "10.0.0.7:999", "X-Forwarded-For", true, 1, ""},
		{"trusted blindly", "10.0.0.7:999", "X-Forwarded-For", true, 0, loose},
	} {
		t.Run(test.name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			var lint proxyLint
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = test.peer
			if test.header != "" {
				r.Header.Set(test.header, "198.51.100.1")
			}
			ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.TrustedProxyVarKey: test.trusted})
			ctx = context.WithValue(ctx, caddyhttp.ServerCtxKey, &caddyhttp.Server{TrustedProxiesStrict: test.strict})
			for range 3 {
				lint.check(r.WithContext(ctx), zap.New(core))
			}
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.Message)
			}
			switch {
			case test.want == "" && len(got) == 0:
			case test.want != "" && len(got) == 1 && strings.HasPrefix(got[0], test.want):
			default:
				t.Errorf("warnings %q, want one that begins %q", got, test.want)
			}
		})
	}
}
