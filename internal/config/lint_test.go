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
		unread = "a trusted proxy names its client in a form that Caddy cannot read"
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
		{"trusted, and not understood", "10.0.0.7:999", "X-Forwarded-For", true, 2, unread},
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
			if test.want == unread {
				r.Header.Set(test.header, "198.51.100.1, [2001:db8::1]")
			}
			ctx := context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.TrustedProxyVarKey: test.trusted})
			ctx = context.WithValue(ctx, caddyhttp.ServerCtxKey, &caddyhttp.Server{
				TrustedProxiesStrict: test.strict, ClientIPHeaders: []string{"X-Forwarded-For"},
			})
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

// L70: what Caddy can read of a proxy's word, and what it passes over.
func TestIsReadable(t *testing.T) {
	for entry, want := range map[string]bool{
		"192.0.2.1": true, " 192.0.2.1 ": true, "192.0.2.1:80": true, " 192.0.2.1:80": true,
		"2001:db8::1": true, "[2001:db8::1]:80": true, "fe80::1%eth0": true, "": true, " ": true,
		" [2001:db8::1]:80": false, "[2001:db8::1]": false, "unknown": false, "_hidden": false, "1.2.3": false,
	} {
		if got := isReadable(entry); got != want {
			t.Errorf("%q: got %t, want %t", entry, got, want)
		}
	}
	h := http.Header{"X-Forwarded-For": {"a, b", "c,d"}, "X-Other": {"e"}}
	for _, c := range []struct {
		names []string
		want  string
	}{{nil, ""}, {[]string{"X-Forwarded-For"}, "d"}, {[]string{"X-None", "x-other", "X-Forwarded-For"}, "e"}} {
		if got := nearestHop(h, c.names); got != c.want {
			t.Errorf("%q: got %q, want %q", c.names, got, c.want)
		}
	}
}
