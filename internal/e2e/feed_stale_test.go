package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A failing is a site with a feed that fails when it is told to: a real Caddy before a real
// upstream, by a clock that the test moves.
type failing struct {
	linked
	now  time.Time
	mode atomic.Value // of string: ok, 503, broken; or an option of the answer
}

var feedBody = "<rss><channel><title>Notes</title><item>" + strings.Repeat("The water stood high. ", 20) + "</item></channel></rss>\n"

// newFailing runs a zone for feeds with these lines, and others beside it.
func newFailing(t *testing.T, lines, others string) *failing {
	t.Helper()
	f := &failing{now: clockStart}
	f.T = t
	installClock()
	blogClock.Store(f.now.UnixNano())
	t.Cleanup(func() { blogClock.Store(0) })
	f.mode.Store("ok")
	f.zone = fmt.Sprint("stale", zones.Add(1))
	others = strings.ReplaceAll(others, "ZONE", f.zone)
	f.to = upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		f.answer(w, r)
	})
	f.server = loadSite(t, fmt.Sprintf(`http:// {
	rate_limit {
		zone %s {
			match path /feed*
			%s
		}
		%s
	}
	encode {
		gzip
		minimum_length 1
	}
	reverse_proxy %s
}
`, f.zone, strings.ReplaceAll(lines, "\n", "\n\t\t\t"), strings.ReplaceAll(others, "\n", "\n\t\t"), f.to))
	return f
}

func (f *failing) answer(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/rss+xml")
	h.Set("Etag", `"v1"`)
	h.Set("Last-Modified", clockStart.Add(-time.Hour).Format(http.TimeFormat))
	switch mode := f.mode.Load().(string); mode {
	case "503":
		h.Set("Retry-After", "120")
		h.Set("Set-Cookie", "failed=1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "<h1>down</h1>")
		return
	case "503, broken off":
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, strings.Repeat("<h1>down</h1>", 1000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "broken":
		panic(http.ErrAbortHandler)
	case "404", "401":
		status, _ := strconv.Atoi(mode)
		w.WriteHeader(status)
		return
	case "cookie":
		h.Set("Set-Cookie", "a=1")
	case "ok":
	default:
		h.Set("Cache-Control", mode)
	}
	if r.Header.Get("If-None-Match") == `"v1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	fmt.Fprint(w, feedBody)
}

func (f *failing) pass(span time.Duration) {
	f.now = f.now.Add(span)
	blogClock.Store(f.now.UnixNano())
}

// reader asks for the feed; each client is a reader of its own.
func (f *failing) reader(client int, method string, header ...string) *httptest.ResponseRecorder {
	r := f.request(method, "/feed.xml", "Reader/1.0", client, header...)
	r.RemoteAddr = fmt.Sprintf("198.51.100.%d:4711", client)
	r.Header.Del("X-Forwarded-For")
	return answer(f.server, r)
}

// TestStaleError: when the site fails, by an answer or by none, readers get the last good copy.
func TestStaleError(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1d\n}", "")
	first := f.reader(1, http.MethodGet)
	f.reader(2, http.MethodGet, "Accept-Encoding", "gzip")
	f.pass(time.Hour)
	client := 2
	for mode, status := range map[string]string{"503": "503", "503, broken off": "503", "broken": "502"} {
		f.mode.Store(mode)
		for name, step := range map[string]struct {
			method string
			header []string
			status int
			want   map[string]string
		}{
			"get":       {http.MethodGet, nil, 200, map[string]string{"Etag": `"v1"`, "Age": "3600", "Content-Type": "application/rss+xml", "Content-Encoding": ""}},
			"gzip":      {http.MethodGet, []string{"Accept-Encoding", "gzip"}, 200, map[string]string{"Content-Encoding": "gzip"}},
			"head":      {http.MethodHead, nil, 200, map[string]string{"Content-Length": fmt.Sprint(len(feedBody))}},
			"a poll":    {http.MethodGet, []string{"If-None-Match", `"v1"`}, 304, map[string]string{"Etag": `"v1"`}},
			"by date":   {http.MethodGet, []string{"If-Modified-Since", clockStart.Add(-time.Hour).Format(http.TimeFormat)}, 304, nil},
			"zipped":    {http.MethodGet, []string{"If-None-Match", `W/"v1-gzip"`, "Accept-Encoding", "gzip"}, 304, nil},
			"made up":   {http.MethodGet, []string{"If-None-Match", `"v0"`}, 200, nil},
			"a part":    {http.MethodGet, []string{"Range", "bytes=0-3"}, 206, map[string]string{"Content-Length": "4"}},
			"a bad one": {http.MethodGet, []string{"Range", "bytes=9999-"}, 416, nil},
		} {
			client++
			w := f.reader(client, step.method, step.header...)
			if w.Code != step.status {
				t.Errorf("%s, %s: %d, want %d; %v", mode, name, w.Code, step.status, w.Header())
			}
			for field, want := range step.want {
				if got := w.Header().Get(field); got != want {
					t.Errorf("%s, %s: %s: %q, want %q", mode, name, field, got, want)
				}
			}
			h := w.Header()
			if h.Get("Retry-After") != "" || h.Get("Set-Cookie") != "" || h.Get("Cache-Status") != "weir; fwd=stale; fwd-status="+status ||
				h.Get("Cache-Control") != "max-age=60" && w.Code != http.StatusRequestedRangeNotSatisfiable {
				t.Errorf("%s, %s: %v", mode, name, h)
			}
			if name == "get" && w.Body.String() != first.Body.String() || w.Code == 304 && w.Body.Len() > 0 {
				t.Errorf("%s, %s: %q", mode, name, w.Body)
			}
		}
	}
	if got := copyUses(t, f.zone); got["stale_error"] != 27 {
		t.Errorf("%v", got)
	}
	// Who shows who he is gets what the site says.
	f.mode.Store("503")
	client++
	if w := f.reader(client, http.MethodGet, "Authorization", "Basic eA=="); w.Code != 503 {
		t.Errorf("with credentials: %d", w.Code)
	}
	if w := f.reader(client, http.MethodPost); w.Code < 500 {
		t.Errorf("a POST: %d", w.Code)
	}
	f.pass(23*time.Hour + time.Second)
	if w := f.reader(1, http.MethodGet); w.Code < 500 {
		t.Errorf("after a day: %d", w.Code)
	}
}

// TestStaleIsPaidFor: what is given instead of an error is charged as if the site had answered.
func TestStaleIsPaidFor(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1d\n}", "")
	f.reader(1, http.MethodGet)
	f.mode.Store("503")
	f.pass(time.Hour)
	count := map[int]int{}
	for range 20 {
		count[f.reader(2, http.MethodGet).Code]++
		f.pass(time.Minute)
	}
	if count[200] != 4 || count[429] != 16 { // three from its budget, and it subscribes
		t.Errorf("%v", count)
	}
	f.mode.Store("ok")
	if w := f.reader(3, http.MethodGet); w.Code != 200 || w.Header().Get("Cache-Status") != "" {
		t.Errorf("when the site is back: %d, %v", w.Code, w.Header())
	}
}

// TestStaleIsConfirmed: a 304 of the site makes a copy as good as new, and so does the same answer.
func TestStaleIsConfirmed(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1h\n\tunconditional 100/1h burst 100\n}", "")
	f.reader(1, http.MethodGet, "Accept-Encoding", "gzip")
	f.reader(2, http.MethodGet)
	f.pass(50 * time.Minute)
	f.reader(3, http.MethodGet, "If-None-Match", `"v1"`)
	f.pass(50 * time.Minute)
	f.mode.Store("503")
	for _, coding := range []string{"gzip", "identity"} {
		if w := f.reader(4, http.MethodGet, "Accept-Encoding", coding); w.Code != 200 || w.Header().Get("Age") != "3000" {
			t.Errorf("%s: %d, %v", coding, w.Code, w.Header())
		}
	}
	f.mode.Store("ok")
	f.reader(5, http.MethodGet)
	f.pass(30 * time.Minute)
	f.mode.Store("503")
	if w := f.reader(6, http.MethodGet); w.Code != 200 || w.Header().Get("Age") != "1800" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	if w := f.reader(6, http.MethodGet, "Accept-Encoding", "gzip"); w.Code != 200 || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("what is too old: %d, %v", w.Code, w.Header())
	}
}

// TestStaleKeepsNothingPrivate: of what is one client's, or must be asked for anew, there is no copy;
// and none for another address.
func TestStaleKeepsNothingPrivate(t *testing.T) {
	for _, mode := range []string{"cookie", "private", "no-store", "no-cache", "max-age=60, must-revalidate", "s-maxage=60"} {
		t.Run(mode, func(t *testing.T) {
			f := newFailing(t, "feed {\n\tstale 1d\n}", "")
			f.mode.Store(mode)
			f.reader(1, http.MethodGet)
			f.mode.Store("503")
			if w := f.reader(2, http.MethodGet); w.Code != 503 {
				t.Errorf("%d", w.Code)
			}
		})
	}
	f := newFailing(t, "feed {\n\tstale 1d\n}", "")
	f.reader(1, http.MethodGet, "Cookie", "user=ann")
	f.reader(1, http.MethodGet, "Authorization", "Basic eA==")
	answer(f.server, f.request(http.MethodGet, "/feed.xml?token=secret", "Reader/1.0", 1))
	f.mode.Store("503")
	if w := f.reader(2, http.MethodGet); w.Code != 503 {
		t.Errorf("%d", w.Code)
	}
	if w := answer(f.server, f.request(http.MethodGet, "/feed.xml?token=other", "Reader/1.0", 3)); w.Code != 503 {
		t.Errorf("another token: %d", w.Code)
	}
}

// TestStaleEndsWithdrawn: what the site has taken back does not come back when it fails.
func TestStaleEndsWithdrawn(t *testing.T) {
	for _, mode := range []string{"404", "401", "private"} {
		f := newFailing(t, "feed {\n\tstale 1d\n}", "")
		f.reader(1, http.MethodGet)
		f.mode.Store("503")
		if w := f.reader(2, http.MethodGet); w.Code != 200 {
			t.Fatalf("%s: before: %d", mode, w.Code)
		}
		f.mode.Store(mode)
		f.reader(3, http.MethodGet)
		f.mode.Store("503")
		if w := f.reader(4, http.MethodGet); w.Code != 503 {
			t.Errorf("%s: after: %d", mode, w.Code)
		}
	}
}

// TestStaleRefused: what a limit on all clients together refuses is answered from memory, without
// the site, as far as the reader's own budgets allow it.
func TestStaleRefused(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1d\n}", `zone ZONE-all {
	limit 3/1h
}`)
	f.reader(1, http.MethodGet)
	f.reader(2, http.MethodGet)
	f.reader(3, http.MethodGet)
	if w := answer(f.server, f.request(http.MethodGet, "/page", browser, 200)); w.Code != 429 {
		t.Errorf("a page: %d", w.Code)
	}
	f.pass(20 * time.Second) // nobody subscribes any more
	count := map[int]int{}
	for range 10 {
		w := f.reader(3, http.MethodGet)
		count[w.Code]++
		if w.Code == 200 && (w.Header().Get("Cache-Status") != "weir; hit; detail=stale" || w.Header().Get("Age") == "" || w.Body.String() != feedBody) {
			t.Errorf("%v", w.Header())
		}
		f.pass(10 * time.Second)
	}
	// Three whole fetches at once are its budget, and one is news.
	if count[200] != 3 || count[429] != 7 || f.asked.Load() != 3 {
		t.Errorf("%v, %d reached the site", count, f.asked.Load())
	}
	if w := f.reader(4, http.MethodGet, "If-None-Match", `"v1"`); w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("a poll: %d", w.Code)
	}
	if w := f.reader(5, http.MethodGet, "Cookie", "a=1"); w.Code != 429 {
		t.Errorf("with a cookie: %d", w.Code)
	}
	if got := copyUses(t, f.zone); got["stale_refused"] != 4 {
		t.Errorf("%v", got)
	}
}

// TestStaleNotForOneClient: a limit on single clients refuses, whatever copies there are.
func TestStaleNotForOneClient(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1d\n}", `zone ZONE-each {
	key {client_ip}
	limit 1/1h
}`)
	f.reader(1, http.MethodGet)
	if w := f.reader(1, http.MethodGet, "Accept-Encoding", "gzip"); w.Code != 429 {
		t.Errorf("%d", w.Code)
	}
	// Nor is that limit passed by because one on all refuses as well.
	f = newFailing(t, "feed {\n\tstale 1d\n}", `zone ZONE-each {
	key {client_ip}
	limit 2/1h
}
zone ZONE-all {
	limit 1/1h
}`)
	f.reader(1, http.MethodGet)
	count := map[int]int{}
	for i := range 6 {
		count[f.reader(1, http.MethodGet, "Accept-Language", fmt.Sprint(i)).Code]++
		f.pass(3 * time.Second)
	}
	if count[200] != 1 || count[429] != 5 {
		t.Errorf("%v", count)
	}
}

// TestStaleDryRun: a dry run changes no answer.
func TestStaleDryRun(t *testing.T) {
	f := newFailing(t, "feed {\n\tstale 1d\n}\ndry_run", "")
	f.reader(1, http.MethodGet)
	f.mode.Store("503")
	if w := f.reader(2, http.MethodGet); w.Code != 503 || !strings.Contains(w.Body.String(), "down") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
