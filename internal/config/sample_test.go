package config

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/observe"
)

// A request that the sample passes over costs no allocation, and one that it takes but those of asking who is signed
// in.
func TestSampleAllocates(t *testing.T) {
	s, r, w := new(Shared), gateRequest("GET", "http://example.com/feed.xml?a=1"), httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	at := gateNoon
	for apart, most := range map[time.Duration]float64{0: 0, time.Second: 2} {
		sample := func() {
			at = at.Add(apart)
			if err := Sampled(s.Sample(r, at), w, r, next); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(1000, sample); n > most {
			t.Errorf("requests %s apart: %v allocations each", apart, n)
		}
	}
}

// BenchmarkSample measures what the handler block pays for keeping the sample of recent requests: nothing is kept; one
// request of a flood, most of which are passed over; and one that is taken, as all are on a quiet site.
func BenchmarkSample(b *testing.B) {
	s, r, w := new(Shared), gateRequest("GET", "http://example.com/feed.xml?a=1"), httptest.NewRecorder()
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0)")
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	for _, kind := range []struct {
		name string
		mark func(i int) observe.Mark
	}{
		{"without", func(int) observe.Mark { return observe.Mark{} }},
		{"flood", func(int) observe.Mark { return s.Sample(r, time.Now()) }},
		{"each", func(i int) observe.Mark { return s.Sample(r, gateNoon.Add(time.Duration(i)*time.Second)) }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := Sampled(kind.mark(i), w, r, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
