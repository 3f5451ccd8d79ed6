package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/blocklist"
)

func TestKnownZonesFitBans(t *testing.T) {
	ownData(t)
	s := build(t, `{}`)
	for name, zone := range map[string]string{
		"plain": `"key": ["{http.vars.client_ip}"]`,
		"wide":  `"key": ["{http.vars.client_ip}"], "ipv4_prefix": 24, "ipv6_prefix": 48`,
		"rolls": `"key": ["{http.vars.client_ip}"], "ban": {"events": 1, "window": "1m", "rollup": {"neighbours": 2, "ipv4": [24]}}`,
		"pair":  `"key": ["{http.vars.client_ip}", "{http.request.host}"]`,
		"user":  `"key": ["{http.auth.user.id}"]`,
	} {
		s.meter(t, zoneOf(name, zone+`, "max_events": 1, "window": "1h"`))
	}
	for _, c := range []struct{ zone, client, want string }{
		{"plain", "203.0.113.9", "203.0.113.9/32"},
		{"plain", "203.0.113.0/24", "wider than the /32"},
		{"plain", "2001:db8:6::1/128", "2001:db8:6::/64"},
		{"wide", "203.0.113.9/32", "203.0.113.0/24"},
		{"wide", "2001:db8:6:7::1/64", "2001:db8:6::/48"},
		{"wide", "203.0.0.0/16", "wider than the /24"},
		{"rolls", "203.0.113.0/24", "203.0.113.0/24"},
		{"rolls", "203.0.112.0/23", "wider than the /32"},
		{"rolls", "2001:db8::/56", "2001:db8::/56"},
		{"pair", "203.0.113.9", "counts by 2 parts together"},
		{"user", "203.0.113.9", "another key than the client's address"},
	} {
		zone, known := s.Zone(c.zone)
		if !known {
			t.Fatalf("no zone %s", c.zone)
		}
		client, err := blocklist.ParsePrefix(c.client)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := zone.Fit(client); err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got.String() != c.want {
			t.Errorf("%s in zone %s: got %s, %v, want %q", c.client, c.zone, got, err, c.want)
		}
	}
	if _, known := s.Zone("none"); known || len(s.ZoneNames()) != 5 {
		t.Errorf("zones are %q", s.ZoneNames())
	}
	for client, want := range map[string]string{"203.0.113.9": "203.0.113.9/32", "2001:db8:5::1": "2001:db8:5::/64"} {
		if got := s.Network(netip.MustParseAddr(client)).String(); got != want {
			t.Errorf("%s is known by %s, want %s", client, got, want)
		}
	}
}

func TestKnownZonesSpare(t *testing.T) {
	ownData(t)
	s := build(t, `{}`)
	s.meter(t, zoneOf("login", `"match": [{"path": ["/login*"], "header": {"X-A": ["b"]}}], "key": ["{http.vars.client_ip}"], "exempt": [{"method": ["PUT"]}], "max_events": 1, "window": "1h"`))
	s.meter(t, zoneOf("dry", `"key": ["{http.vars.client_ip}"], "dry_run": true, "max_events": 1, "window": "1h"`))
	with := map[string][]string{"X-A": {"b"}}
	for _, c := range []struct {
		zone string
		r    blocklist.Request
		want string
	}{
		{"login", blocklist.Request{Path: "/login", Header: with}, ""},
		{"login", blocklist.Request{Path: "/login"}, "not the zone's"},
		{"login", blocklist.Request{Path: "/", Header: with}, "not the zone's"},
		{"login", blocklist.Request{Path: "/login", Header: with, Method: "PUT"}, "exempt"},
		{"login", blocklist.Request{Path: "/login", Header: with, Client: netip.MustParseAddr("127.0.0.1")}, "bans no such address"},
		{"dry", blocklist.Request{Path: "/"}, "dry run"},
	} {
		if !c.r.Client.IsValid() {
			c.r.Client = netip.MustParseAddr("203.0.113.9")
		}
		zone, known := s.Zone(c.zone)
		if !known {
			t.Fatalf("no zone %s", c.zone)
		}
		if got := zone.Spares(&c.r); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("zone %s, %+v: got %q, want %q", c.zone, c.r, got, c.want)
		}
	}
}
