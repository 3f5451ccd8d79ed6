package source

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// The judge of the algebra: 256 addresses, and of each whether it is in, and until when.

var (
	world4 = netip.MustParsePrefix("198.51.100.0/24")
	world6 = netip.MustParsePrefix("2001:db8::/120")
)

// randomEntries makes entries within a world of 256 addresses.
func randomEntries(r *rand.Rand, world netip.Prefix, n int) []entry {
	entries := make([]entry, n)
	for i := range entries {
		addr := world.Addr().AsSlice()
		addr[len(addr)-1] = byte(r.IntN(256))
		a, _ := netip.AddrFromSlice(addr)
		entries[i] = entry{
			prefix: netip.PrefixFrom(a, world.Bits()+r.IntN(9)).Masked(),
			until:  []int64{1, 2, 3, forever}[r.IntN(4)],
			order:  int32(i),
			allow:  r.IntN(3) == 0,
		}
	}
	return entries
}

// table answers for each address of a world until when it is blocked; 0 for not at all.
func table(world netip.Prefix, entries []entry) (ends [256]int64) {
	for i, a := 0, world.Addr(); i < 256; i, a = i+1, a.Next() {
		for _, e := range entries {
			if e.prefix.Contains(a) {
				ends[i] = max(ends[i], e.until)
			}
		}
	}
	return ends
}

// eachWorld runs a check with many random sets of entries.
func eachWorld(t *testing.T, check func(t *testing.T, r *rand.Rand, world netip.Prefix)) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		for _, world := range []netip.Prefix{world4, world6} {
			check(t, r, world)
			if t.Failed() {
				t.Fatalf("seed %d, %s", seed, world)
			}
		}
	}
}

func TestNormalise(t *testing.T) {
	eachWorld(t, func(t *testing.T, r *rand.Rand, world netip.Prefix) {
		entries := randomEntries(r, world, r.IntN(12))
		want := table(world, entries)
		got := normalise(slices.Clone(entries))
		if table(world, got) != want {
			t.Errorf("%v became %v", entries, got)
		}
		for i, e := range got {
			for j, o := range got {
				if i != j && covers(o.prefix, e.prefix) && o.until >= e.until {
					t.Errorf("%v makes %v superfluous", o, e)
				}
			}
		}
		if !slices.IsSortedFunc(got, func(a, b entry) int { return comparePrefixes(a.prefix, b.prefix) }) {
			t.Errorf("%v is not sorted", got)
		}
	})
}

// deciding answers which of the entries decides about an address; nil if none does.
func deciding(entries []entry, a netip.Addr, byOrder bool) *entry {
	var best *entry
	for i := range entries {
		e := &entries[i]
		switch {
		case !e.prefix.Contains(a):
		case best == nil:
			best = e
		case byOrder && e.order < best.order:
			best = e
		case !byOrder && (e.prefix.Bits() > best.prefix.Bits() || e.prefix == best.prefix && e.order > best.order):
			best = e
		}
	}
	return best
}

func TestExcept(t *testing.T) {
	for _, byOrder := range []bool{false, true} {
		eachWorld(t, func(t *testing.T, r *rand.Rand, world netip.Prefix) {
			entries := randomEntries(r, world, 1+r.IntN(10))
			for i := range entries {
				entries[i].until = forever
			}
			var want [256]int64
			for i, a := 0, world.Addr(); i < 256; i, a = i+1, a.Next() {
				if e := deciding(entries, a, byOrder); e != nil && !e.allow {
					want[i] = forever
				}
			}
			if got, err := except(slices.Clone(entries), byOrder, &cutter{left: maxPieces}); err != nil || table(world, got) != want {
				t.Errorf("by order %t: %+v became %+v, %v", byOrder, entries, got, err)
			}
		})
	}
}

func TestStripIsExact(t *testing.T) {
	eachWorld(t, func(t *testing.T, r *rand.Rand, world netip.Prefix) {
		entries := normalise(randomEntries(r, world, r.IntN(8)))
		var guards []netip.Prefix
		for _, e := range randomEntries(r, world, r.IntN(5)) {
			guards = append(guards, e.prefix)
		}
		want, taken := table(world, entries), [256]bool{}
		for i, a := 0, world.Addr(); i < 256; i, a = i+1, a.Next() {
			if slices.ContainsFunc(guards, func(p netip.Prefix) bool { return p.Contains(a) }) {
				taken[i] = want[i] != 0
				want[i] = 0
			}
		}
		kept, stripped := strip(slices.Clone(entries), guards)
		if table(world, kept) != want {
			t.Errorf("%v without %v became %v", entries, guards, kept)
		}
		for i, a := 0, world.Addr(); i < 256; i, a = i+1, a.Next() {
			if in := slices.ContainsFunc(stripped, func(p netip.Prefix) bool { return p.Contains(a) }); in != taken[i] {
				t.Errorf("%s: stripped: %t, want %t", a, in, taken[i])
			}
		}
	})
}

func prefixes(words string) []netip.Prefix {
	var all []netip.Prefix
	for _, w := range strings.Fields(words) {
		all = append(all, netip.MustParsePrefix(w))
	}
	return all
}

// TestStrip: loopback and LAN in an imported list (B25, L127), the server's own address
// in a range of a list (B02), and what a list's range of a proxy costs (B26).
func TestStrip(t *testing.T) {
	tests := []struct {
		name, list, protected, kept, stripped string
	}{
		{"nothing", "", "10.0.0.0/8", "", ""},
		{"no guards", "198.51.100.0/24 198.51.100.7/32", "", "198.51.100.0/24", ""},
		{"all of it", "127.0.0.0/8 10.1.2.3/32 198.51.100.1/32", "10.0.0.0/8 127.0.0.0/8", "198.51.100.1/32", "10.1.2.3/32 127.0.0.0/8"},
		{
			"one's own address", "203.0.113.0/29", "203.0.113.2/32",
			"203.0.113.0/31 203.0.113.3/32 203.0.113.4/30", "203.0.113.2/32",
		},
		{"the same", "203.0.113.0/29", "203.0.113.0/29", "", "203.0.113.0/29"},
		{"the beginning", "203.0.113.0/30", "203.0.113.0/32", "203.0.113.1/32 203.0.113.2/31", "203.0.113.0/32"},
		{"two within each other", "203.0.113.0/30", "203.0.113.0/31 203.0.113.0/32", "203.0.113.2/31", "203.0.113.0/31"},
		{"IPv6 beside", "2001:db8::/126", "2001:db8::3/128 203.0.113.0/24", "2001:db8::/127 2001:db8::2/128", "2001:db8::3/128"},
		{"IPv4 in IPv6", "203.0.113.0/24", "::ffff:203.0.113.0/121", "203.0.113.128/25", "203.0.113.0/25"},
		{"no order", "203.0.113.5/32 198.51.100.1/32", "203.0.113.9/32 203.0.113.5/32", "198.51.100.1/32", "203.0.113.5/32"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept, stripped := Strip(prefixes(tt.list), prefixes(tt.protected))
			if !slices.Equal(kept, prefixes(tt.kept)) || !slices.Equal(stripped, prefixes(tt.stripped)) {
				t.Errorf("kept %v, stripped %v", kept, stripped)
			}
		})
	}
}

// TestStripIsBounded: a range that would have to be cut into too many pieces is left
// out, and what is protected stays so.
func TestStripIsBounded(t *testing.T) {
	var guards []netip.Prefix
	for i := range 3 * maxPieces / 2 {
		guards = append(guards, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 15), byte(i >> 7), byte(i << 1)}), 32))
	}
	kept, stripped := Strip(prefixes("20.0.0.0/8 198.51.100.0/24"), guards)
	if !slices.Equal(kept, prefixes("198.51.100.0/24")) || !slices.Equal(stripped, prefixes("20.0.0.0/8")) {
		t.Errorf("kept %d, stripped %v", len(kept), stripped)
	}
}

// TestBogons: a list of all that is unused leaves the LAN alone.
func TestBogons(t *testing.T) {
	kept, _ := Strip(prefixes("10.0.0.0/8 127.0.0.1/32 192.168.3.4/32 169.254.0.0/16 100.64.0.0/10 ::1/128 fe80::/64 fd00::/8 203.0.113.0/24 8.8.8.8/32"), Bogons())
	if want := prefixes("8.8.8.8/32 203.0.113.0/24"); !slices.Equal(kept, want) {
		t.Errorf("got %v, want %v", kept, want)
	}
}

func TestBetween(t *testing.T) {
	eachWorld(t, func(t *testing.T, r *rand.Rand, world netip.Prefix) {
		i, j := r.IntN(256), r.IntN(256)
		i, j = min(i, j), max(i, j)
		at := func(n int) netip.Addr {
			raw := world.Addr().AsSlice()
			raw[len(raw)-1] = byte(n)
			a, _ := netip.AddrFromSlice(raw)
			return a
		}
		all, err := between(at(i), at(j))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 256 {
			hits := 0
			for _, p := range all {
				if p.Contains(at(n)) {
					hits++
				}
			}
			if in := n >= i && n <= j; in && hits != 1 || !in && hits != 0 {
				t.Errorf("%s to %s is %v, with %s %d times", at(i), at(j), all, at(n), hits)
			}
		}
	})
	// The last addresses there are.
	for _, pair := range [][2]string{{"255.255.255.254", "255.255.255.255"}, {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}} {
		all, err := between(netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1]))
		if err != nil || len(all) != 1 {
			t.Errorf("%v: got %v, %v", pair, all, err)
		}
	}
}

// TestExceptionsAreBounded: a list of many small exceptions does not make a huge one, in one set
// or in several.
func TestExceptionsAreBounded(t *testing.T) {
	for sets, exceptions := range map[int]int{1: 6000, 4: 1500, 2: 1000} {
		var text strings.Builder
		for set := range sets {
			fmt.Fprintf(&text, "add s%d %d.0.0.0/8\n", set, 20+set)
			for i := range exceptions {
				fmt.Fprintf(&text, "add s%d %d.%d.%d.8 nomatch\n", set, 20+set, i%250, i/250*10)
			}
		}
		p, err := Parse(strings.NewReader(text.String()), IPSet, Limits{})
		if sets*exceptions > 5000 {
			if err == nil || err.Error() != "has more exceptions than can be cut out of its ranges" {
				t.Errorf("%d sets: %d prefixes, %v", sets, len(p.Prefixes), err)
			}
			continue
		}
		if err != nil || len(p.Prefixes) < 10_000 || len(p.Allowed) != sets*exceptions {
			t.Errorf("%d sets: %d prefixes, %d exceptions, %v", sets, len(p.Prefixes), len(p.Allowed), err)
		}
		if kept, stripped := Strip(p.Prefixes, p.Allowed); len(stripped) != 0 || len(kept) != len(p.Prefixes) {
			t.Errorf("%v are exceptions and blocked", stripped)
		}
	}
}
