package source

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
)

// million is a list of n different addresses and ranges in no order, a tenth of them IPv6.
func million(n int) []netip.Prefix {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]netip.Prefix, n)
	for i := range all {
		if i%10 == 0 {
			raw := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(r.Uint32()), byte(r.Uint32()), byte(i >> 16), byte(i >> 8), byte(i)}
			all[i] = netip.PrefixFrom(netip.AddrFrom16(raw), 64+r.IntN(65)).Masked()
			continue
		}
		raw := [4]byte{byte(11 + r.IntN(80)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}
		all[i] = netip.PrefixFrom(netip.AddrFrom4(raw), []int{32, 32, 32, 32, 32, 29, 24}[r.IntN(7)]).Masked()
	}
	return all
}

// BenchmarkParse reads lists of a million entries; held is what is in memory
// afterwards, in bytes an entry.
func BenchmarkParse(b *testing.B) {
	list := million(1_000_000)
	texts := map[Format]func(*strings.Builder, netip.Prefix){
		Plain:  func(w *strings.Builder, p netip.Prefix) { fmt.Fprintln(w, p) },
		IPSet:  func(w *strings.Builder, p netip.Prefix) { fmt.Fprintf(w, "add bad %s timeout 86400\n", p) },
		Nginx:  func(w *strings.Builder, p netip.Prefix) { fmt.Fprintf(w, "deny %s;\n", p) },
		Ranges: func(w *strings.Builder, p netip.Prefix) { fmt.Fprintf(w, "{\"ipv4Prefix\": \"%s\"},\n", p) },
		CrowdSec: func(w *strings.Builder, p netip.Prefix) {
			text, _ := json.Marshal(decision{ID: 1, Origin: "CAPI", Scope: "Range", Value: p.String(), Type: "ban", Duration: "23h"})
			fmt.Fprintf(w, "%s,\n", text)
		},
	}
	for f := Plain; int(f) < len(formats); f++ {
		if texts[f] == nil {
			continue
		}
		b.Run(f.String(), func(b *testing.B) {
			var w strings.Builder
			for _, p := range list {
				texts[f](&w, p)
			}
			text := w.String()
			if f == Ranges || f == CrowdSec {
				text = "[" + strings.TrimSuffix(text, ",\n") + "]"
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var p Parsed
			for b.Loop() {
				var err error
				if p, err = Parse(strings.NewReader(text), f, Limits{MaxBytes: 1 << 30}); err != nil || p.RejectedCount > 0 {
					b.Fatal(p.Rejected, err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(list)), "held-B/entry")
			b.ReportMetric(float64(len(p.Prefixes)), "prefixes")
		})
	}
}

// BenchmarkStrip cuts what is protected out of a million prefixes.
func BenchmarkStrip(b *testing.B) {
	list := million(1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		if kept, _ := Strip(list, Bogons()); len(kept) == 0 {
			b.Fatal("nothing is left")
		}
	}
}
