package config

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
)

// What a zone may not say beside `lease` and `count after`, and what is warned about.
func TestModes(t *testing.T) {
	rate := Rate{Events: 1000, Window: caddy.Duration(time.Minute)}
	bucket := Rate{Events: 100, Window: caddy.Duration(time.Minute), Algorithm: limiter.TokenBucket}
	for _, c := range []struct {
		name string
		zone Zone
		want string // in an error or a warning; none if empty
	}{
		{"lease", Zone{Limits: []Rate{rate}, Lease: 16}, ""},
		{"count after", Zone{Limits: []Rate{rate}, CountAfter: DefaultCountAfter}, ""},
		{"lease of one", Zone{Limits: []Rate{rate}, Lease: 1}, "lease: must be between 2 and 1000000, got 1"},
		{"much lease", Zone{Limits: []Rate{rate}, Lease: 251}, "it is more than a quarter of this limit"},
		{"lease of nothing", Zone{InFlight: 5, Lease: 16}, "lease: the zone has no limit of which"},
		{"lease and in_flight", Zone{Limits: []Rate{rate}, InFlight: 5, Lease: 16}, "lease: has no effect: min_interval and in_flight"},
		{"lease and count_rejected", Zone{Limits: []Rate{rate}, Lease: 16, CountRejected: caddy.Duration(time.Hour)}, "lease: cannot be had with count_rejected"},
		{"both", Zone{Limits: []Rate{rate}, Lease: 16, CountAfter: DefaultCountAfter}, "lease: cannot be had with count after"},
		{"lease of a bucket", Zone{Limits: []Rate{bucket}, Lease: 16}, ""},
		{"lease of a small bucket", Zone{Limits: []Rate{bucket}, Burst: 15, Lease: 3}, "lease: needs a burst of at least 16"},
		{"lease of a dear bucket", Zone{Limits: []Rate{bucket}, Lease: 16, Cost: "97"}, "lease: leaves 94 of the burst"},
		{"short interval", Zone{Limits: []Rate{rate}, CountAfter: 1}, "count_after: must be between 10ms and 1h"},
		{"short window", Zone{Limits: []Rate{rate}, CountAfter: caddy.Duration(16 * time.Second)}, "fewer than four intervals"},
		{"min_interval after", Zone{Limits: []Rate{rate}, MinInterval: caddy.Duration(time.Second), CountAfter: DefaultCountAfter}, "count_after: min_interval cannot be counted afterwards"},
		{"in_flight after", Zone{Limits: []Rate{rate}, InFlight: 5, CountAfter: DefaultCountAfter}, "count_after: in_flight cannot be counted afterwards"},
		{"bucket after", Zone{Limits: []Rate{bucket}, CountAfter: DefaultCountAfter}, "count_after: a token_bucket"},
		{"settle after", Zone{Limits: []Rate{rate}, Settle: &Settle{}, CountAfter: DefaultCountAfter}, "count_after: cannot be had with settle"},
	} {
		r := newReport()
		c.zone.checkModes(r, &App{Redis: &Redis{}})
		said := ""
		for _, w := range r.warnings {
			said += w.path + ": " + w.message
		}
		if err := r.err(); err != nil {
			said += err.Error()
		}
		if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}
