package config

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestReliefGivesBack: what a dry run of another zone for feeds reserved for a reader that is given a copy
// is given back, and the bans of zones whose limits were left out of account hear of the answer.
func TestReliefGivesBack(t *testing.T) {
	now := feedClock(t)
	m := feedMeterOf(t, `
		"dry": {"feed": {}, "dry_run": true, "exempt_ranges": ["198.51.100.0/24"]},
		"kept": {"feed": {"stale": "1d"}},
		"watch": {"key": "{http.vars.client_ip}", "max_events": 1, "window": "1h", "dry_run": true, "ban": {"events": 9, "window": "1m", "count": ["2xx"]}},
		"all": {"max_events": 1, "window": "1h"}`)
	visit := func(client string, n int) (status int) {
		r, w := from(client, "/feed.xml", "Accept-Language", strconv.Itoa(n), "Accept-Encoding", strconv.Itoa(n)), httptest.NewRecorder()
		d, err := m.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Allowed {
			m.Refused(d, r, http.StatusTooManyRequests)
			return http.StatusTooManyRequests
		}
		if err := m.Serve(d, w, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header()["Etag"] = theTag
			_, err := w.Write([]byte("<rss>"))
			return err
		})); err != nil {
			t.Fatal(err)
		}
		return w.Code
	}
	if got := visit("198.51.100.1", 0); got != http.StatusOK {
		t.Fatalf("the first: %d", got)
	}
	const reader = "203.0.113.1"
	for n := range 3 { // who subscribes may fetch all of it three times
		*now = now.Add(time.Second)
		if got := visit(reader, n); got != http.StatusOK {
			t.Fatalf("%d: status %d, and no copy", n, got)
		}
	}
	r := from(reader, "/feed.xml", "Accept-Encoding", "another")
	d, err := m.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	dry := slices.IndexFunc(d.parts, func(p part) bool { return p.zone.seen.Name == "dry" })
	if cost := d.parts[dry].visit.Cost(); cost != 0 {
		t.Errorf("the dry run charges %d: what it reserved is lost", cost)
	}
	m.Refused(d, r, http.StatusTooManyRequests)
	seen := m.shared.bans.witnesses.young[subject{"watch", reader}]
	if seen.status != http.StatusOK {
		t.Errorf("the ban of a zone in dry run saw the status %d", seen.status)
	}
}
