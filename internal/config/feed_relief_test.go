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

// siteUp is a site with a feed.
var siteUp = caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Etag"] = theTag
	_, err := w.Write([]byte("<rss>"))
	return err
})

// readSite has a request decided and, if it may pass, answered by a site or a copy. It returns the status.
func (m *Meter) readSite(t *testing.T, w *httptest.ResponseRecorder, r *http.Request, site caddyhttp.Handler) int {
	t.Helper()
	d, err := m.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed {
		m.Refused(d, r, http.StatusTooManyRequests)
		return http.StatusTooManyRequests
	}
	if err := m.Serve(d, w, r, site); err != nil {
		t.Fatal(err)
	}
	return w.Code
}

// TestReliefGivesBack: what a dry run of another zone for feeds reserved for a reader that is given a copy
// is given back, and the bans of zones whose limits were left out of account hear of the answer.
func TestReliefGivesBack(t *testing.T) {
	now := feedClock(t)
	m := feedMeterOf(t, `
		"dry": {"feed": {}, "dry_run": true, "exempt_ranges": ["198.51.100.0/24"]},
		"kept": {"feed": {"stale": "1d"}},
		"watch": {"key": "{http.vars.client_ip}", "max_events": 1, "window": "1h", "dry_run": true, "ban": {"events": 9, "window": "1m", "count": ["2xx"]}},
		"all": {"max_events": 1, "window": "1h"}`)
	visit := func(client string, n int) int {
		return m.readSite(t, httptest.NewRecorder(), from(client, "/feed.xml", "Accept-Language", strconv.Itoa(n), "Accept-Encoding", strconv.Itoa(n)), siteUp)
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

// TestReliefTellsBans: the ban of a zone in dry run hears that its zone would have refused a reader who is
// given a copy, and of no other.
func TestReliefTellsBans(t *testing.T) {
	feedClock(t)
	m := feedMeterOf(t, `
		"kept": {"feed": {"stale": "1d"}},
		"watch": {"key": "{http.vars.client_ip}", "max_events": 1, "window": "1h", "dry_run": true, "ban": {"events": 9, "window": "1m", "count": ["refusals"]}},
		"all": {"max_events": 1, "window": "1h"}`)
	const first, again = "203.0.113.1", "203.0.113.2"
	for i, client := range []string{again, again, first} {
		w := httptest.NewRecorder()
		status := m.readSite(t, w, from(client, "/feed.xml"), siteUp)
		if copied := w.Header().Get("Cache-Status") != ""; status != http.StatusOK || copied != (i > 0) {
			t.Fatalf("%d: status %d, a copy: %v", i, status, copied)
		}
	}
	heard := m.shared.bans.witnesses.young
	if seen := heard[subject{"watch", again}]; seen.status != http.StatusOK {
		t.Errorf("the ban saw the status %d of a reader whom its zone would have refused", seen.status)
	}
	if seen, any := heard[subject{"watch", first}]; any {
		t.Errorf("the ban saw the status %d of a reader whom its zone would have let pass", seen.status)
	}
}

// TestDryRunHidesNoCopies: a zone for feeds in dry run that stands before one that keeps copies keeps no
// reader from a copy when the site fails.
func TestDryRunHidesNoCopies(t *testing.T) {
	feedClock(t)
	m := feedMeterOf(t, `
		"dry": {"feed": {"stale": "1d"}, "dry_run": true},
		"kept": {"feed": {"stale": "1d"}}`)
	down := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusBadGateway)
		return nil
	})
	m.readSite(t, httptest.NewRecorder(), from("203.0.113.1", "/feed.xml"), siteUp)
	w := httptest.NewRecorder()
	if status := m.readSite(t, w, from("203.0.113.2", "/feed.xml"), down); status != http.StatusOK || w.Body.String() != "<rss>" {
		t.Errorf("status %d, %q", status, w.Body)
	}
}
