package config

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// readFeed has a request decided and, if it may pass, answered with 304 and a tag, or else by
// what there is in place of a refusal. It returns the status.
func (m *Meter) readFeed(tb testing.TB, w http.ResponseWriter, r *http.Request) int {
	d, err := m.Read(r)
	if err != nil {
		tb.Fatal(err)
	}
	if !d.Allowed {
		status := m.Status
		if answer := m.Instead(d, r); answer != nil {
			status = answer.Status
			m.Answered(d, r, status)
			return status
		}
		m.Refused(d, r, status)
		return status
	}
	if err := m.Serve(d, w, r, notModified); err != nil {
		tb.Fatal(err)
	}
	return http.StatusNotModified
}

var theTag = []string{`"v1"`}

var notModified = caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Etag"] = theTag
	w.WriteHeader(http.StatusNotModified)
	return nil
})

// feedClock moves the clock of what is built afterwards. It is for tests that are not parallel.
func feedClock(tb testing.TB) *time.Time {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	Clock = func() time.Time { return now }
	tb.Cleanup(func() { Clock = nil })
	return &now
}

// feedMeterOf builds a handler with one zone, on the memory store.
func feedMeterOf(tb testing.TB, zone string) *Meter {
	tb.Helper()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := new(App).Build(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	var h RateLimit
	if err := json.Unmarshal([]byte(`{"rate_limits": {`+zone+`}}`), &h); err != nil {
		tb.Fatal(err)
	}
	m, err := h.Build(ctx, s)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

const hugeFeed = `"feed": {"conditional": {"events": 1000000, "window": "1s", "burst": 1000000}}`

// TestFeedAllocations: a poll that passes costs three allocations more than in a plain zone.
func TestFeedAllocations(t *testing.T) {
	now := feedClock(t)
	count := func(zone string) float64 {
		m := feedMeterOf(t, zone)
		r, w := from("203.0.113.1", "/feed.xml", "If-None-Match", `"v1"`), httptest.NewRecorder()
		return testing.AllocsPerRun(200, func() {
			*now = now.Add(time.Minute)
			clear(w.Header())
			if got := m.readFeed(t, w, r); got != http.StatusNotModified {
				t.Fatalf("status %d", got)
			}
		})
	}
	plain := count(`"plain": {"key": "{http.vars.client_ip}", "limits": [{"events": 1000000, "window": "1s", "burst": 1000000, "algorithm": "token_bucket"}]}`)
	feeds := count(`"feeds": {` + hugeFeed + `}`)
	if feeds-plain > 3 {
		t.Errorf("%v allocations, a plain zone %v: more than 3 apart", feeds, plain)
	}
}

// BenchmarkFeed compares an allowed poll in a zone for feeds with the same in a plain one.
func BenchmarkFeed(b *testing.B) {
	now := feedClock(b)
	for name, zone := range map[string]string{
		"plain": `"plainbench": {"key": "{http.vars.client_ip}", "limits": [{"events": 1000000, "window": "1s", "burst": 1000000, "algorithm": "token_bucket"}]}`,
		"feed":  `"feedsbench": {` + hugeFeed + `}`,
	} {
		b.Run(name, func(b *testing.B) {
			m := feedMeterOf(b, zone)
			r, w := from("203.0.113.1", "/feed.xml", "If-None-Match", `"v1"`, "Accept-Encoding", "gzip"), httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				*now = now.Add(time.Minute)
				clear(w.Header())
				if got := m.readFeed(b, w, r); got != http.StatusNotModified {
					b.Fatalf("status %d", got)
				}
			}
		})
	}
}

// TestFeedDryRun: nobody is refused, and no answer is changed.
func TestFeedDryRun(t *testing.T) {
	now := feedClock(t)
	m := build(t, `{}`).meter(t, `{"rate_limits": {"dryfeed": {"feed": {"strict": true, "max_age": "1h"}, "dry_run": true}}}`)
	for range 10 {
		*now = now.Add(time.Minute)
		w := httptest.NewRecorder()
		if got := m.readFeed(t, w, from("203.0.113.1", "/feed.xml", "If-None-Match", `"v1"`)); got != http.StatusNotModified || w.Header().Get("Cache-Control") != "" {
			t.Errorf("status %d, %v", got, w.Header())
		}
	}
}

// TestFeedStrict: a poll over budget is told 304 without the site, or 429.
func TestFeedStrict(t *testing.T) {
	now := feedClock(t)
	for options, want := range map[string]int{`{}`: 304, `{"strict": true}`: 429} {
		m := build(t, `{}`).meter(t, `{"rate_limits": {"strict`+strconv.Itoa(want)+`": {"feed": `+options+`}}}`)
		for i := range 6 {
			*now = now.Add(time.Minute)
			got := m.readFeed(t, httptest.NewRecorder(), from("203.0.113.1", "/feed.xml", "If-None-Match", `"v1"`))
			if i < 2 && got != 304 || i >= 2 && got != want {
				t.Errorf("%s: poll %d: status %d", options, i, got)
			}
		}
	}
}

// TestFeedAndOtherLimits: the other limits of the zone hold too, and are not taken for budgets.
func TestFeedAndOtherLimits(t *testing.T) {
	now := feedClock(t)
	m := build(t, `{}`).meter(t, `{"rate_limits": {"both": {"feed": {}, "max_events": 3, "window": "1h", "settle": {"status": {"304": 1}}}}}`)
	poll := func(path string) int {
		*now = now.Add(time.Minute)
		return m.readFeed(t, httptest.NewRecorder(), from("203.0.113.1", path, "If-None-Match", `"v1"`))
	}
	for i, path := range []string{"/a.xml", "/b.xml", "/c.xml", "/d.xml"} {
		if got := poll(path); i < 3 && got != 304 || i == 3 && got != 429 {
			t.Errorf("feed %d: status %d", i, got)
		}
	}
}

func TestFeedMeaning(t *testing.T) {
	for zone, want := range map[string]string{
		`"feed": {}`: "",
		`"feed": {"conditional": {"events": 0, "window": "1h"}}`:                    "feed: conditional: events: must be between 1 and 1000000, got 0",
		`"feed": {"conditional": {"events": 1}}`:                                    "feed: conditional: window: must be between 1s and",
		`"feed": {"unconditional": {"burst": -1}}`:                                  "feed: unconditional: burst: must be between 1 and 1000000, got -1",
		`"feed": {"unconditional": {"burst": 5}}`:                                   "",
		`"feed": {"parameters": [""]}`:                                              "feed: parameters: must not be empty",
		`"feed": {"aliases": [["/a"]]}`:                                             "feed: alias[0]: must have two paths or more",
		`"feed": {"over": "redirect"}`:                                              `feed: over: must be refuse, not_modified, announce or explain, got "redirect"`,
		`"feed": {"over": "announce"}`:                                              "feed: announce: is missing",
		`"feed": {"announce": "1h"}`:                                                "feed: announce: needs over announce",
		`"feed": {"explain_after": 2}`:                                              "feed: explain_after: needs over explain",
		`"feed": {"over": "explain", "explain_after": -2}`:                          "feed: explain_after: must be at least 1, got -2",
		`"feed": {"max_age": "-1s"}`:                                                "feed: max_age: must be between",
		`"feed": {"max_wait": "1ms"}`:                                               "feed: max_wait: must be at least 1s, got 1ms",
		`"feed": {"escalate": 1}`:                                                   "feed: escalate: must be between 2 and 100, or 0 for never, got 1",
		`"feed": {"escalate": 101}`:                                                 "feed: escalate: must be between 2 and 100, or 0 for never, got 101",
		`"feed": {"escalate": 20, "unconditional": {"events": 1, "window": "20d"}}`: "feed: escalate: must fit the unconditional window: 20 times 20d is more than 366d",
		`"feed": {"escalate": 18, "unconditional": {"events": 1, "window": "20d"}}`: "",
		`"feed": {"people": {"max": 5000}}`:                                         "feed: people: max: must be between 1 and 1000, got 5000",
		`"feed": {}, "lease": 10, "max_events": 1000, "window": "1h"`:               "feed: cannot be had with lease",
		`"feed": {}, "count_after": "1s"`:                                           "feed: cannot be had with count after",
		`"feed": {}, "max_events": 1, "window": "1h", "count_rejected": "1h"`:       "feed: cannot be had with count_rejected",
	} {
		err := rateLimit(t, `{"rate_limits": {"z": {`+zone+`}}}`).Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", zone, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", zone, err, want)
		}
	}
}

// TestFeedReadsWhatGoesBy: the beginning of a feed is looked at however it is written, by Write or
// by ReadFrom, and the client gets all of it.
func TestFeedReadsWhatGoesBy(t *testing.T) {
	now := feedClock(t)
	m := build(t, `{}`).meter(t, `{"rate_limits": {"readers": {"feed": {}}}}`)
	body := "<rss><channel><ttl>45</ttl><item>" + strings.Repeat("x", 200_000) + "</item></channel></rss>"
	serve := func(next caddyhttp.HandlerFunc) *httptest.ResponseRecorder {
		*now = now.Add(time.Minute)
		r, w := from("203.0.113.1", "/feed.xml"), httptest.NewRecorder()
		d, err := m.Read(r)
		if err != nil || !d.Allowed {
			t.Fatalf("%v", err)
		}
		if err := m.Serve(d, w, r, next); err != nil {
			t.Fatal(err)
		}
		return w
	}
	whole := func(w http.ResponseWriter, _ *http.Request) error {
		http.ServeContent(w, httptest.NewRequest(http.MethodGet, "/feed.xml", nil), "feed.xml", now.Add(-time.Hour), strings.NewReader(body))
		return nil
	}
	if w := serve(whole); w.Body.String() != body || w.Header().Get("Cache-Control") != "" {
		t.Errorf("first: %d bytes, %v", w.Body.Len(), w.Header())
	}
	if w := serve(func(w http.ResponseWriter, _ *http.Request) error {
		_, err := w.Write([]byte(body))
		return err
	}); w.Body.String() != body || w.Header().Get("Cache-Control") != "max-age=2700" {
		t.Errorf("second: %d bytes, %v", w.Body.Len(), w.Header())
	}
	if w := serve(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-cache")
		return whole(w, r)
	}); w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("third: %v", w.Header())
	}
}
