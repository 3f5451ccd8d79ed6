package blocklist

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// benchSnapshot returns what a large site has in force: rules of all kinds made at run time, and a list of
// ranges.
func benchSnapshot(t testing.TB, ranges, globs, agents int) *Snapshot {
	t.Helper()
	var rules []*Rule
	for i, r := range benchRules(globs) {
		r.Created = noon.Add(time.Duration(i))
		rules = append(rules, &r)
	}
	for i, name := range agentNames(agents) {
		rules = append(rules, &Rule{Name: fmt.Sprint("agent ", i), Fields: []Field{{Name: "agent", Patterns: []string{name}}}})
	}
	made, err := NewPart("shared", rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := Entries{Rule: Rule{Name: "list"}}
	for _, text := range benchRanges(ranges).Fields[0].Patterns {
		e.Prefixes = append(e.Prefixes, netip.MustParsePrefix(text))
	}
	list, err := NewListPart(e)
	if err != nil {
		t.Fatal(err)
	}
	protected, _ := ParsePrefixes([]string{"127.0.0.0/8", "::1", "10.0.0.0/8"})
	return &Snapshot{Protected: protected, Parts: []*Part{made, list}, Budget: new(Budget)}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, size := range []struct{ ranges, globs, agents int }{
		{0, 0, 0}, {5_000, 50, 10}, {100_000, 1_000, 200}, {2_000_000, 20_000, 4_000},
	} {
		b.Run(fmt.Sprintf("%dranges/%dglobs/%dagents", size.ranges, size.globs, size.agents), func(b *testing.B) {
			s := benchSnapshot(b, size.ranges, size.globs, size.agents)
			r := typical()
			addrs := make([]netip.Addr, 1024)
			for i := range addrs {
				x := uint32(i) * 40_503_001
				addrs[i] = netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Client = addrs[i%len(addrs)]
				s.Match(r, noon, nil)
			}
		})
	}
}

// BenchmarkMillion measures what becomes of a million ranges, apart from requests: built at once, and one
// rule more beside them.
func BenchmarkMillion(b *testing.B) {
	var rules []*Rule
	million := benchRanges(1_000_000)
	e := Entries{Rule: Rule{Name: "list"}}
	for _, text := range million.Fields[0].Patterns {
		e.Prefixes = append(e.Prefixes, netip.MustParsePrefix(text))
	}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewListPart(e); err != nil {
				b.Fatal(err)
			}
		}
	})
	rules = append(rules, &million)
	before, err := NewPart("shared", rules, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("one more", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			one := Rule{Name: "one", Fields: []Field{{Name: "client_ip", Patterns: []string{netip.AddrFrom4([4]byte{9, byte(i >> 16), byte(i >> 8), byte(i)}).String()}}}}
			if _, err := NewPart("shared", []*Rule{&million, &one}, before); err != nil {
				b.Fatal(err)
			}
		}
	})
}
