package blocklist

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
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

// BenchmarkSwap measures how long requests take, one after the other, while another goroutine
// compiles a list of a million ranges and swaps it in again and again; and, to compare, while
// it keeps as busy with what allocates nothing, and while there is none.
func BenchmarkSwap(b *testing.B) {
	e := Entries{Rule: Rule{Name: "list"}}
	for _, text := range benchRanges(1_000_000).Fields[0].Patterns {
		e.Prefixes = append(e.Prefixes, netip.MustParsePrefix(text))
	}
	var now atomic.Pointer[Snapshot]
	now.Store(benchSnapshot(b, 100_000, 1_000, 200))
	parts := now.Load().Parts[:1]
	idle := now.Load()
	for _, beside := range []struct {
		name string
		work func()
	}{
		{"swaps", func() {
			list, err := NewListPart(e)
			if err != nil {
				b.Error(err)
			}
			now.Store(&Snapshot{Parts: append(slices.Clone(parts), list), Budget: new(Budget)})
		}},
		{"busy", func() { idle.Match(typical(), noon, nil) }},
		{"alone", nil},
	} {
		b.Run(beside.name, func(b *testing.B) {
			var stop atomic.Bool
			done := make(chan int)
			go func() {
				swaps := 0
				for ; beside.work != nil && !stop.Load(); swaps++ {
					beside.work()
				}
				done <- swaps
			}()
			r := typical()
			times := make([]time.Duration, 0, 1<<20)
			for start := time.Now(); time.Since(start) < 3*time.Second; {
				began := time.Now()
				now.Load().Match(r, noon, nil)
				if len(times) < cap(times) {
					times = append(times, time.Since(began))
				}
			}
			stop.Store(true)
			n := <-done
			slices.Sort(times)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(times[len(times)*9999/10000].Nanoseconds())/1e3, "p99.99-us")
			b.ReportMetric(float64(times[len(times)-1].Nanoseconds())/1e3, "worst-us")
			b.ReportMetric(float64(n), "times")
		})
	}
}
