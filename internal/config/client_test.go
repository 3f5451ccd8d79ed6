package config

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// served returns a request as a Caddy server without trusted proxies hands it to its
// handlers.
func served(method, target, remote string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = remote
	return caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
}

// L77, L83, B07, B35, B47: one client is one address however it is written.
func TestClientIP(t *testing.T) {
	for _, c := range []struct{ name, remote, want string }{
		{"IPv4", "192.0.2.1:4711", "192.0.2.1"},
		{"another port", "192.0.2.1:1", "192.0.2.1"},
		{"no port", "192.0.2.1", "192.0.2.1"},
		{"mapped", "[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"mapped in hex", "[::ffff:c000:201]:80", "192.0.2.1"},
		{"translated", "[64:ff9b::192.0.2.1]:80", "192.0.2.1"},
		{"translated beyond the well-known prefix", "[64:ff9b:1::192.0.2.1]:80", "64:ff9b:1::c000:201"},
		{"IPv6", "[2001:db8::1]:443", "2001:db8::1"},
		{"upper case", "[2001:DB8::1]:443", "2001:db8::1"},
		{"unabridged", "[2001:0db8:0:0:0:0:0:0001]:443", "2001:db8::1"},
		{"dotted tail", "[2001:db8:1234:5678::1.2.3.4]:443", "2001:db8:1234:5678::102:304"},
		{"zone", "[fe80::1%eth0]:80", "fe80::1"},
		{"words after the address", "2001:db8::1:1 port 60910", "invalid IP"},
		{"unix socket", "@", "invalid IP"},
		{"unix socket with path", "/run/caddy.sock", "invalid IP"},
		{"nothing", "", "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare := httptest.NewRequest("GET", "/", nil)
			bare.RemoteAddr = c.remote
			if got := ClientIP(bare).String(); got != c.want {
				t.Errorf("without a server: got %s, want %s", got, c.want)
			}
			if _, err := netip.ParseAddr(c.remote); err == nil {
				return // a server's requests always have a port
			}
			if got := ClientIP(served("GET", "/", c.remote)).String(); got != c.want {
				t.Errorf("in a server: got %s, want %s", got, c.want)
			}
		})
	}
}

// B20, B32: the server's word counts, headers do not.
func TestClientIPIsTheServersWord(t *testing.T) {
	r := served("GET", "/", "10.0.0.1:80")
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	r.Header.Set("X-Real-Ip", "203.0.113.9")
	if got := ClientIP(r).String(); got != "10.0.0.1" {
		t.Errorf("untrusted headers: got %s, want the peer", got)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "::ffff:198.51.100.7")
	if got := ClientIP(r).String(); got != "198.51.100.7" {
		t.Errorf("behind a proxy: got %s, want the client", got)
	}
	caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, "")
	if got := ClientIP(r); got.IsValid() {
		t.Errorf("server found no address: got %s, want none", got)
	}
}

// L74, L76, B05: networks are cut from the bits, not from the text.
func TestAppendNetwork(t *testing.T) {
	for _, c := range []struct {
		addr   string
		v4, v6 int
		want   string
	}{
		{"192.0.2.77", 32, 64, "192.0.2.77"},
		{"192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"192.0.2.77", 26, 64, "192.0.2.64/26"},
		{"::ffff:192.0.2.77", 24, 64, "192.0.2.0/24"},
		{"2001:db8::1", 32, 64, "2001:db8::/64"},
		{"2001:db8::1", 32, 48, "2001:db8::/48"},
		{"2001:db8:1:2:ffff::1", 32, 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:ffff::1", 32, 63, "2001:db8:1:2::/63"},
		{"2001:db8:1:3:ffff::1", 32, 63, "2001:db8:1:2::/63"},
		{"2001:db8::1", 32, 128, "2001:db8::1"},
		{"nonsense", 32, 64, ""},
	} {
		got := string(prefixBits{c.v4, c.v6}.appendNetwork(nil, parseAddr(c.addr)))
		if got != c.want {
			t.Errorf("%s /%d /%d: got %q, want %q", c.addr, c.v4, c.v6, got, c.want)
		}
	}
}

func FuzzClientAddress(f *testing.F) {
	for _, s := range []string{
		"192.0.2.1", "::ffff:192.0.2.1", "fe80::1%eth0", "2001:DB8::1", "[::1]:80", "64:ff9b::1.2.3.4",
		"::ffff:0:0%x", "1.2.3.4:5", "@", "2001:db8::1:1 port 60910", "::ffff:64:ff9b", "0.0.0.0", "::",
	} {
		f.Add(s, 24, 64)
	}
	f.Fuzz(func(t *testing.T, text string, v4, v6 int) {
		a := parseAddr(text)
		if !a.IsValid() {
			return
		}
		if a.Is4In6() || a.Zone() != "" {
			t.Fatalf("%q: %s is not the one form", text, a)
		}
		if again := parseAddr(a.String()); again != a {
			t.Fatalf("%q: %s reads back as %s", text, a, again)
		}
		if loud := parseAddr(strings.ToUpper(a.String())); loud != a {
			t.Fatalf("%q: upper case is another client: %s", text, loud)
		}
		if zoned := parseAddr(a.WithZone("eth0").String()); zoned != a {
			t.Fatalf("%q: a zone makes another client: %s", text, zoned)
		}
		if mapped := blocklist.Plain(netip.AddrFrom16(a.As16())); mapped != a {
			t.Fatalf("%q: 16 bytes make another client: %s", text, mapped)
		}
		bits := prefixBits{1 + int(uint(v4)%32), 1 + int(uint(v6)%128)}
		network := bits.mask(a)
		if !network.Contains(a) || network.Masked() != network {
			t.Fatalf("%q: %s is not its network", text, network)
		}
		if first := bits.mask(network.Addr()); first != network {
			t.Fatalf("%q: the network's own address lies in %s, not %s", text, first, network)
		}
		written := string(bits.appendNetwork([]byte("x"), a))
		if !strings.Contains(written, "/") {
			written += "/" + map[bool]string{true: "32", false: "128"}[a.Is4()]
		}
		if read, err := netip.ParsePrefix(written[1:]); err != nil || read != network {
			t.Fatalf("%q: wrote %q for %s (%v)", text, written, network, err)
		}
	})
}

func TestClientIPAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 64)
	for _, remote := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		r := served("GET", "/", remote)
		n := testing.AllocsPerRun(100, func() {
			buf = prefixBits{24, 64}.appendNetwork(buf[:0], ClientIP(r))
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", remote, n)
		}
	}
}
