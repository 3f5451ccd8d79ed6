package main

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

func TestReadLoad(t *testing.T) {
	l, err := readLoad("  123 requests in 1.00s, 1MB read\n  Non-2xx or 3xx responses: 7\n")
	if err != nil || l.requests != 123 || l.refused != 7 {
		t.Errorf("got %+v, %v", l, err)
	}
	for _, report := range []string{
		"unable to connect to 127.0.0.1:80 Connection refused",
		"  Socket errors: connect 0, read 3, write 0, timeout 0\n  123 requests in 1.00s, 1MB read\n",
	} {
		if l, err := readLoad(report); err == nil {
			t.Errorf("%q: got %+v and no error", report, l)
		}
	}
}

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		all                 []float64
		least, median, most float64
	}{
		{[]float64{3, 1, 2}, 1, 2, 3},
		{[]float64{4, 1, 3, 2}, 1, 2.5, 4},
		{[]float64{5}, 5, 5, 5},
	} {
		least, median, most := spread(test.all)
		if least != test.least || median != test.median || most != test.most {
			t.Errorf("%v: got %v, %v, %v", test.all, least, median, most)
		}
	}
}

func TestRatios(t *testing.T) {
	p := pairs{without: []float64{10, 20}, with: []float64{11, 30}}
	if r := p.ratios(); len(r) != 2 || r[0] != 1.1 || r[1] != 1.5 {
		t.Errorf("got %v", r)
	}
}

// BenchmarkFields measures what Go's server does with the fields of an answer: it copies them,
// sorts them and writes them. A file from Caddy has the first seven; rate_limit adds the rest.
func BenchmarkFields(b *testing.B) {
	names := []string{
		"Server", "Vary", "Etag", "Last-Modified", "Accept-Ranges", "Content-Type", "Content-Length",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit-Policy", "Ratelimit",
	}
	values := []string{`"all";r=999999999;t=3600`}
	for _, n := range []int{7, 8, 9, 12} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := make(http.Header)
				for _, name := range names[:n] {
					h[name] = values
				}
				if err := h.Clone().Write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
