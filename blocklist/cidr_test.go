package blocklist

import (
	"net/netip"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"address", "192.0.2.1", "192.0.2.1/32"},
		{"IPv6 address", "2001:DB8::1", "2001:db8::1/128"},
		{"range", "10.0.0.0/8", "10.0.0.0/8"},
		{"host bits are dropped", "31.13.0.77/16", "31.13.0.0/16"},
		{"everything", "::/0", "::/0"},
		{"mapped address, B47", "::ffff:10.0.0.1", "10.0.0.1/32"},
		{"mapped range", "::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{"all mapped", "::ffff:0:0/96", "0.0.0.0/0"},
		{"translated address, B35", "64:ff9b::c000:201", "192.0.2.1/32"},
		{"translated range", "64:ff9b::10.0.0.0/104", "10.0.0.0/8"},
		{"all translated", "64:ff9b::/96", "64:ff9b::/96"}, // as in lists of bogons: never all of IPv4
		{"zone, L77", "fe80::1%eth0", "fe80::1/128"},
		{"zone in a range", "fe80::%eth0/64", "fe80::/64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParsePrefix(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if p.String() != tt.want {
				t.Errorf("got %s, want %s", p, tt.want)
			}
		})
	}
}

func TestParsePrefixErrors(t *testing.T) {
	const notAddress = ": must be an address or a CIDR range"
	tests := []struct {
		name, text, want string
	}{
		{
			"mapped and too short, B37", "::ffff:10.0.0.0/64",
			`"::ffff:10.0.0.0/64": must have a length from 96 to 128: these are IPv4 addresses`,
		},
		{"empty", "", `""` + notAddress},
		{"port, B07", "2001:db8::1:1 port 60910", `"2001:db8::1:1 port 60910"` + notAddress},
		{"IPv4 port", "192.0.2.1:80", `"192.0.2.1:80"` + notAddress},
		{"blank", "192.0.2.1 ", `"192.0.2.1 "` + notAddress},
		{"leading zero", "192.0.02.1", `"192.0.02.1"` + notAddress},
		{"too long", "10.0.0.0/33", `"10.0.0.0/33": must have a length from 0 to 32 after the slash`},
		{"no length", "::/", `"::/": must have a length from 0 to 128 after the slash`},
		{"zero before the length", "10.0.0.0/08", `"10.0.0.0/08": must have a length from 0 to 32 after the slash`},
		{"signed length", "10.0.0.0/+8", `"10.0.0.0/+8": must have a length from 0 to 32 after the slash`},
		{"name", "localhost", `"localhost"` + notAddress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := ParsePrefix(tt.text); message(err) != tt.want {
				t.Errorf("got %v, %q\nwant %q", p, message(err), tt.want)
			}
		})
	}
}

func TestPrefixesContains(t *testing.T) {
	set, err := ParsePrefixes([]string{"10.0.0.0/8", "fe80::/64", "::ffff:192.0.2.0/120"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"10.1.2.3":            true,
		"::ffff:10.1.2.3":     true, // B47
		"fe80::1%eth0":        true, // L77
		"192.0.2.9":           true,
		"11.0.0.0":            false,
		"::10.1.2.3":          false,
		"64:ff9b::10.1.2.3":   true,  // B35
		"64:ff9b:1::10.1.2.3": false, // not the well-known prefix
		"fe80:0:0:1::1":       false,
		"2001:db8::192.0.2.9": false, // B35: by range, not by notation
	} {
		if got := set.Contains(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if set.Contains(netip.Addr{}) {
		t.Error("contains an invalid address")
	}
	if (*Prefixes)(nil).Contains(netip.MustParseAddr("10.1.2.3")) {
		t.Error("a nil set contains an address")
	}
}

// Row B22: a list that is left out is empty, not everything.
func TestNoPrefixesContainNothing(t *testing.T) {
	set, err := ParsePrefixes(nil)
	if err != nil {
		t.Fatal(err)
	}
	if set.Contains(netip.MustParseAddr("10.1.2.3")) {
		t.Error("an empty set contains an address")
	}
}

func FuzzParsePrefix(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::1%eth0", "::/0", "2001:db8::/32"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePrefix(text)
		if err != nil {
			return
		}
		if p.Addr().Is4In6() || p != p.Masked() || p.Addr().Zone() != "" {
			t.Errorf("%q: %s is not in the one form", text, p)
		}
		if again, err := ParsePrefix(p.String()); err != nil || again != p {
			t.Errorf("%q: %s is read as %s, %v", text, p, again, err)
		}
	})
}
