package blocklist

import (
	"fmt"
	"net/netip"
	"testing"
)

// benchRules returns n rules as operators write them: by path, agent, query, host and
// header, none of which matches the typical request.
func benchRules(n int) []Rule {
	rules := make([]Rule, n)
	for i := range rules {
		var f Field
		switch i % 5 {
		case 0:
			f = Field{Name: "path", Patterns: []string{fmt.Sprintf("/wp-%d/*.php", i), fmt.Sprintf("/old/%d/*", i)}}
		case 1:
			f = Field{Name: "user_agent", Patterns: []string{fmt.Sprintf("*crawler%d*", i)}}
		case 2:
			f = Field{Name: "query", Patterns: []string{fmt.Sprintf("*session=%d*", i)}}
		case 3:
			f = Field{Name: "host", Patterns: []string{fmt.Sprintf("*.shop%d.example", i)}}
		case 4:
			f = Field{Name: "header", Header: "Accept", Patterns: []string{fmt.Sprintf("text/x-%d", i)}}
		}
		rules[i] = Rule{Name: fmt.Sprint("rule ", i), Fields: []Field{f}}
	}
	return rules
}

// benchRanges returns a rule of n ranges that are spread over all addresses.
func benchRanges(n int) Rule {
	f := Field{Name: "client_ip"}
	for i := range uint32(n) {
		x := i * 2_654_435_761 // spreads, and never repeats
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)}), 24+int(i%9))
		f.Patterns = append(f.Patterns, prefix.Masked().String())
	}
	return Rule{Name: "ranges", Fields: []Field{f}}
}

func benchSet(t testing.TB, globs, ranges int) *Set {
	t.Helper()
	rules := benchRules(globs)
	if ranges > 0 {
		rules = append(rules, benchRanges(ranges))
	}
	set, err := NewSet(rules)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// outside returns an address that no range of benchRanges holds.
func outside() netip.Addr { return netip.MustParseAddr("2001:db8::7") }

func BenchmarkMatch(b *testing.B) {
	for _, size := range []struct{ globs, ranges int }{
		{10, 0}, {1_000, 0}, {100_000, 0}, {0, 10}, {0, 1_000}, {0, 100_000}, {1_000, 100_000},
	} {
		b.Run(fmt.Sprintf("%dglobs/%dranges", size.globs, size.ranges), func(b *testing.B) {
			set := benchSet(b, size.globs, size.ranges)
			r := typical()
			addrs := make([]netip.Addr, 1024)
			for i := range addrs {
				x := uint32(i) * 40_503_001
				addrs[i] = netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Client = addrs[i%len(addrs)]
				set.Match(r, noon, nil)
			}
		})
	}
}

func BenchmarkNewSet(b *testing.B) {
	rules := append(benchRules(1_000), benchRanges(100_000))
	for b.Loop() {
		if _, err := NewSet(rules); err != nil {
			b.Fatal(err)
		}
	}
}

// The scratch is taken by hand here: under the race detector a pool drops some of what is
// put back.
func TestMatchAllocatesNothing(t *testing.T) {
	set := benchSet(t, 1_000, 10_000)
	sc := set.pool.Get().(*scratch)
	refused, passed := typical(), typical()
	refused.Query = "session=2"
	passed.Client = outside()
	for want, r := range map[string]*Request{"rule 2": refused, "": passed} {
		name := ""
		match := func() {
			if hit := set.first(&set.refuse, r, noon, sc); hit != nil {
				name = hit.Name
			}
			if !sc.reset() {
				t.Error("does not keep its room")
			}
		}
		if match(); name != want {
			t.Fatalf("got %q, want %q", name, want)
		}
		if n := testing.AllocsPerRun(100, match); n != 0 {
			t.Errorf("%q: %v allocations", want, n)
		}
	}
}
