package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// addressed is a Caddyfile whose rules, limits and exceptions go by the client's address;
// %s stands for the options of its servers.
const addressed = `{
	servers {
		%s
	}
}
:{$PORT} {
	block {
		rule bad {
			client_ip 203.0.113.0/24 2001:db8:bad::/48
		}
		allow 203.0.113.77
	}
	rate_limit {
		zone who {
			key {client_ip}
			limit 1000/1h
			exempt 192.0.2.0/24
		}
	}
	respond "through"
}
`

const trusting = "trusted_proxies static 127.0.0.1/32 10.0.0.0/8\n"

// forwardedFor is a header line for each value.
func forwardedFor(values ...string) []string {
	var lines []string
	for _, v := range values {
		lines = append(lines, "X-Forwarded-For: "+v)
	}
	return lines
}

// TestSpellingsOfAnAddress sends the addresses of clients in every spelling that a proxy may
// choose: one client spends one budget and meets the same rules (L70, L76, L77, L83, B07, B35,
// B47). What is no address is the proxy's own, never an empty key or another's.
func TestSpellingsOfAnAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, fmt.Sprintf(addressed, trusting+"trusted_proxies_strict"))
	four := []string{
		"%s", " %s ", "%s:4711", "::ffff:%s", "::FFFF:%s", "0:0:0:0:0:ffff:%s", "[::ffff:%s]:80", "::ffff:%s%%eth0",
		"64:ff9b::%s", "64:FF9B:0:0:0:0:%s", "[64:ff9b::%s]:80",
	}
	six := []string{
		"2001:db8:1:2::7", "2001:DB8:1:2::7", "2001:0db8:0001:0002:0000:0000:0000:0007", "[2001:db8:1:2::7]:443",
		"2001:db8:1:2::7%eth0", "2001:db8:1:2::0.0.0.7", "2001:db8:1:2::1.2.3.4", "2001:db8:1:2:ffff::1",
	}
	local := []string{"fe80::1%eth0", "FE80::1%eth1", "fe80::1", "[fe80::1%eth0]:80"}
	none := []string{
		"198.051.100.007", "0xc6336407", "3325256711", "198.51.100", "198.51.100.7.", "198.51.100.7/32", "[2001:db8::1]",
		"2001:db8::1:1 port 60910", "::ffff:198.51.100.7:80", "for=198.51.100.7", "unknown", "_hidden", "", ",,,", "\xff\xfe",
	}
	of := func(addr string) []string {
		var all []string
		for _, spelling := range four {
			all = append(all, fmt.Sprintf(spelling, addr))
		}
		return all
	}
	for name, spellings := range map[string][]string{
		"IPv4": of("198.51.100.7"), "another": of("198.51.100.8"), "in hex": {"::ffff:c633:6409", "64:ff9b::c633:6409", "198.51.100.9"},
		"IPv6": six, "link-local": local, "none": none,
	} {
		for i, spelling := range spellings {
			a := raw(t, s.addr(), "/", forwardedFor("192.0.2.1", spelling)...)
			if name == "none" {
				a = raw(t, s.addr(), "/", forwardedFor(spelling)...)
			}
			if want := fmt.Sprint(999 - i); a.status != 200 || a.left() != want {
				t.Errorf("%s: %q: %d, %q left, want %s", name, spelling, a.status, a.left(), want)
			}
		}
	}
	bad6 := []string{"2001:db8:bad::1", "2001:DB8:BAD:1::", "[2001:db8:bad::1]:80", "2001:db8:bad::1%eth0", "2001:db8:bad::1.2.3.4"}
	for _, spelling := range append(of("203.0.113.9"), bad6...) {
		if a := raw(t, s.addr(), "/", forwardedFor(spelling)...); a.status != 403 {
			t.Errorf("refused range: %q: %d", spelling, a.status)
		}
	}
	for _, spelling := range append(of("192.0.2.9"), of("192.0.2.255")...) {
		if a := raw(t, s.addr(), "/", forwardedFor(spelling)...); a.status != 200 || a.left() != "" {
			t.Errorf("exempt range: %q: %d, %q left", spelling, a.status, a.left())
		}
	}
	for i, spelling := range of("203.0.113.77") {
		if a := raw(t, s.addr(), "/", forwardedFor(spelling)...); a.status != 200 || a.left() != fmt.Sprint(999-i) {
			t.Errorf("allowed address: %q: %d, %q left", spelling, a.status, a.left())
		}
	}
}

// TestForwardedForWithoutStrict: without trusted_proxies_strict Caddy believes the first
// address there is, which the client may have made up. That is said in the log (B32).
func TestForwardedForWithoutStrict(t *testing.T) {
	t.Parallel()
	s := serve(t, fmt.Sprintf(addressed, trusting))
	hops := make([]string, 200)
	for i := range hops {
		hops[i] = fmt.Sprintf("198.18.0.%d", i)
	}
	for name, lines := range map[string][]string{
		"two":       {"%s, 192.0.2.1"},
		"two lines": {"%s", "203.0.113.9"},
		"garbage":   {"unknown, 198.51.100, %s, 192.0.2.1"},
		"200 hops":  append([]string{"%s"}, hops...),
		"mapped":    {"[::ffff:%s]:80, 192.0.2.1"},
	} {
		who := fmt.Sprintf("198.51.100.%d", len(name))
		forged := strings.Split(fmt.Sprintf(strings.Join(lines, "\n"), who), "\n")
		if a := raw(t, s.addr(), "/", forwardedFor(forged...)...); a.status != 200 || a.left() != "999" {
			t.Errorf("%s: %d, %q left, want a budget not touched before", name, a.status, a.left())
		}
		if a := raw(t, s.addr(), "/", forwardedFor(who)...); a.left() != "998" {
			t.Errorf("%s: %q left: was not the first address", name, a.left())
		}
	}
	if err := s.waitLog("trusted_proxies_strict"); err != nil {
		t.Error(err)
	}
}

// TestUntrustedPeer: from a peer that is not trusted no header moves anything: neither into a
// refused range nor out of it, neither to another's budget nor to a new one (B32, B20).
func TestUntrustedPeer(t *testing.T) {
	t.Parallel()
	for i, options := range []string{
		"", "trusted_proxies static 10.0.0.0/8", "trusted_proxies static 10.0.0.0/8\ntrusted_proxies_strict", "trusted_proxies_unix",
	} {
		s := serve(t, fmt.Sprintf(addressed, options))
		sent := 0
		for _, value := range []string{"203.0.113.9", "192.0.2.9", "203.0.113.77", "127.0.0.1", "10.0.0.1", "unknown", "", strings.Repeat("192.0.2.9,", 1500)} {
			for _, header := range []string{"X-Forwarded-For: ", "X-Real-IP: ", "Forwarded: for=", "CF-Connecting-IP: ", "True-Client-IP: "} {
				a := raw(t, s.addr(), "/", header+value)
				sent++
				if want := fmt.Sprint(1000 - sent); a.status != 200 || a.left() != want {
					t.Fatalf("options %d: %.40s%.40s: %d, %q left, want %s", i, header, value, a.status, a.left(), want)
				}
			}
		}
	}
}

// socketed is a Caddyfile that serves a unix socket; %s stands for the options of its
// servers.
const socketed = `{
	servers {
		%s
	}
}
http://site.example {
	bind unix/{$SOCKET}
	block {
		rule bad {
			client_ip 203.0.113.0/24
		}
	}
	rate_limit {
		zone who {
			match {
				not path /skipped /rejected
			}
			key {client_ip}
			limit 1000/1h
		}
		zone skipped {
			match {
				path /skipped
			}
			key {client_ip}
			on_empty_key skip
			limit 1/1h
		}
		zone rejected {
			match {
				path /rejected
			}
			key {remote_host}
			on_empty_key reject
			limit 1000/1h
		}
	}
	respond "through"
}
`

// TestUnixPeers: the peers of a unix socket have no address. All of them share one budget,
// unless the socket is trusted and a header names the client.
func TestUnixPeers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		trusted bool
	}{
		"untrusted":           {"", false},
		"other proxies":       {"trusted_proxies static 10.0.0.0/8\ntrusted_proxies_strict", false},
		"trusted":             {"trusted_proxies_unix", true},
		"trusted, and strict": {"trusted_proxies static 10.0.0.0/8\ntrusted_proxies_unix\ntrusted_proxies_strict", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "s")
			serve(t, fmt.Sprintf(socketed, c.options), "SOCKET="+socket)
			shared := 0
			check := func(a exchange, what string, own int) {
				t.Helper()
				want := fmt.Sprint(1000 - own)
				if own == 0 {
					shared++
					want = fmt.Sprint(1000 - shared)
				}
				if a.status != 200 || a.left() != want {
					t.Errorf("%s: %d, %q left, want %s", what, a.status, a.left(), want)
				}
			}
			check(raw(t, socket, "/"), "nothing", 0)
			for _, garbage := range []string{"unknown", "@", "198.51.100", "", "/run/s"} {
				check(raw(t, socket, "/", forwardedFor(garbage)...), garbage, 0)
			}
			own := 0
			for _, spelling := range []string{"198.51.100.7", "::ffff:198.51.100.7", "64:ff9b::198.51.100.7", "[::ffff:198.51.100.7]:80"} {
				if c.trusted {
					own++
				}
				check(raw(t, socket, "/", forwardedFor(spelling)...), spelling, own)
			}
			bad := raw(t, socket, "/", forwardedFor("::ffff:203.0.113.9")...)
			if want := map[bool]int{true: 403, false: 200}[c.trusted]; bad.status != want {
				t.Errorf("refused range: %d, want %d", bad.status, want)
			}
			for range 3 {
				if a := raw(t, socket, "/skipped"); a.status != 200 || a.left() != "" {
					t.Errorf("skip: %d, %q left", a.status, a.left())
				}
			}
			if a := raw(t, socket, "/rejected"); a.status != 429 {
				t.Errorf("reject: %d", a.status)
			}
		})
	}
}
