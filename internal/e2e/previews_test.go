package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<title>A post</title>", strings.Repeat("The water stood high. ", 100))
}

// TestPreviewCrowd (T31): three hundred servers ask for one page at once, each from an address of
// its own. The site is asked once, and all get the page; those that come later as well.
func TestPreviewCrowd(t *testing.T) {
	const crowd = 300
	release, open := gate()
	defer open()
	l := newLinked(t, "previews\nlimit 1/1h", func(w http.ResponseWriter, r *http.Request) {
		<-release
		page(w, r)
	})
	var answers []*httptest.ResponseRecorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		var requests []*http.Request
		for i := range crowd {
			requests = append(requests, l.request(http.MethodGet, "/post?ref=feed", mastodon, i, "Accept-Encoding", "gzip"))
		}
		answers = l.together(requests...)
	}()
	l.waiting(crowd - 1)
	open()
	l.within("the crowd", done)
	for i, w := range answers {
		if l.want(200, 1, w); w.Header().Get("Content-Encoding") != "gzip" || w.Body.String() != answers[0].Body.String() {
			t.Fatalf("answer %d: %v", i, w.Header())
		}
	}
	w := l.get("/post?ref=feed", discord, "Accept-Encoding", "gzip, br")
	if l.want(200, 1, w); w.Header().Get("Cache-Status") != "weir; hit" || w.Header().Get("Age") != "0" || w.Header().Get("X-Ratelimit-Limit") != "" {
		t.Errorf("%v", w.Header())
	}
	if got := l.uses(); got["miss"] != 1 || got["coalesced"] != crowd-1 || got["hit"] != 1 {
		t.Errorf("%v", got)
	}
}

// TestPreviewHeadAndGet (T30): HEAD, then GET, from a hundred addresses. The site is asked once.
func TestPreviewHeadAndGet(t *testing.T) {
	l := newLinked(t, "previews\nlimit 1/1h", page)
	for i := range 100 {
		head := answer(l.server, l.request(http.MethodHead, "/post", mastodon, i))
		get := answer(l.server, l.request(http.MethodGet, "/post", mastodon, i))
		l.want(200, 1, head)
		l.want(200, 1, get)
		if head.Body.Len() > 0 || get.Body.Len() == 0 || head.Header().Get("Content-Type") != "text/html" {
			t.Fatalf("%d: %d and %d bytes, %v", i, head.Body.Len(), get.Body.Len(), head.Header())
		}
	}
	if _, ok := l.methods.Load(http.MethodHead); ok {
		t.Error("the site was asked by HEAD")
	}
}

// TestPreviewHeadOfMuch: who asks by HEAD for what is not kept does not wait for all of it, and the
// site is not made to send it.
func TestPreviewHeadOfMuch(t *testing.T) {
	ended := make(chan struct{})
	l := newLinked(t, "previews {\n\tmemory 64KiB\n}", func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		chunk := make([]byte, 64<<10)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.want(200, 1, answer(l.server, l.request(http.MethodHead, "/film", mastodon, 0)))
	}()
	l.within("the HEAD", done)
	l.within("the body", ended)
}

// TestPreviewHeadOfStream: nor does one that is sent so slowly that it never comes to that much run on.
func TestPreviewHeadOfStream(t *testing.T) {
	ended := make(chan struct{})
	l := newLinked(t, "previews {\n\twait 100ms\n}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := answer(l.server, l.request(http.MethodHead, "/events", mastodon, 0))
		if l.want(200, 1, w); w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() > 0 {
			t.Errorf("%v, %q", w.Header(), w.Body)
		}
	}()
	l.within("the HEAD", done)
	l.within("the stream", ended)
}

// TestPreviewLeaderLeaves: if the client leaves that is under way to the site, one of those who wait
// goes, and nobody else notices.
func TestPreviewLeaderLeaves(t *testing.T) {
	arrived := make(chan struct{}, 100)
	release, open := gate()
	defer open()
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
			page(w, r)
		case <-r.Context().Done():
		}
	})
	first, leave := cancelled(l.request(http.MethodGet, "/post", mastodon, 0))
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		answer(l.server, first)
	}()
	<-arrived
	// One of those who wait leaves as well.
	second, leaveToo := cancelled(l.request(http.MethodGet, "/post", mastodon, 1))
	goneToo := make(chan struct{})
	go func() {
		defer close(goneToo)
		if w := answer(l.server, second); w.Code == http.StatusOK && w.Body.Len() > 0 {
			t.Error("who left was answered")
		}
	}()
	l.waiting(1)
	leaveToo()
	l.within("the second", goneToo)
	done := make(chan struct{})
	var answers []*httptest.ResponseRecorder
	go func() {
		defer close(done)
		var requests []*http.Request
		for i := range 50 {
			requests = append(requests, l.request(http.MethodGet, "/post", mastodon, 2+i))
		}
		answers = l.together(requests...)
	}()
	l.waiting(50)
	leave()
	l.within("the first", gone)
	<-arrived
	l.waiting(49)
	open()
	l.within("the others", done)
	for _, w := range answers {
		l.want(200, 2, w)
	}
}

// TestPreviewSlowSite: nobody waits for ever; who has waited enough goes to the limits by itself.
func TestPreviewSlowSite(t *testing.T) {
	release, open := gate()
	defer open()
	l := newLinked(t, "previews {\n\twait 100ms\n}\nlimit 2/1h", func(w http.ResponseWriter, r *http.Request) {
		<-release
		page(w, r)
	})
	statuses := make(chan int, 10)
	for i := range 10 {
		go func() { statuses <- answer(l.server, l.request(http.MethodGet, "/slow", mastodon, i)).Code }()
	}
	for range 8 {
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("status %d", status)
		}
	}
	open()
	for range 2 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	// What the slow answer was is known now.
	l.want(200, 2, l.get("/slow", mastodon))
}

// TestPreviewFailingSite: errors are given to nobody else. Those who wait go one after the other.
func TestPreviewFailingSite(t *testing.T) {
	release, open := gate()
	defer open()
	failures := 3
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		<-release
		if failures--; failures >= 0 { // one at a time
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		page(w, r)
	})
	var answers []*httptest.ResponseRecorder
	done := make(chan struct{})
	go func() {
		defer close(done)
		var requests []*http.Request
		for i := range 20 {
			requests = append(requests, l.request(http.MethodGet, "/post", mastodon, i))
		}
		answers = l.together(requests...)
	}()
	l.waiting(19)
	open()
	l.within("the crowd", done)
	count := map[int]int{}
	for _, w := range answers {
		count[w.Code]++
	}
	if count[502] != 3 || count[200] != 17 || l.asked.Load() != 4 {
		t.Errorf("%v, %d reached the site", count, l.asked.Load())
	}
}

// TestPreviewPrivate: what is one client's is given to no other.
func TestPreviewPrivate(t *testing.T) {
	n := 0
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		n++
		switch r.URL.Path {
		case "/session":
			w.Header().Set("Set-Cookie", fmt.Sprint("session=", n))
		case "/private":
			w.Header().Set("Cache-Control", "private, max-age=600")
		case "/vary":
			w.Header().Set("Vary", "User-Agent")
		case "/asked-anew":
			w.Header().Set("Cache-Control", "max-age=0")
		}
		fmt.Fprintf(w, "%d for %q", n, r.Header.Get("Cookie")+r.Header.Get("Authorization")+r.Header.Get("Signature"))
	})
	// With credentials each gets its own, whatever the page says.
	for _, header := range [][2]string{{"Cookie", "user=ann"}, {"Cookie", "user=bob"}, {"Authorization", "Basic Y2Fy"}, {"Signature", "dora"}, {"Cookie", "user=ann"}} {
		asked := l.asked.Load()
		w := l.get("/page", mastodon, header[0], header[1])
		if l.want(200, asked+1, w); !strings.Contains(w.Body.String(), header[1]) {
			t.Errorf("%s got %q", header[1], w.Body)
		}
	}
	// And nobody else gets theirs.
	if w := l.get("/page", mastodon); !strings.HasSuffix(w.Body.String(), `for ""`) {
		t.Errorf("%q", w.Body)
	}
	asked := l.asked.Load()
	l.want(200, asked, l.get("/page", mastodon))
	// Nor are these answers given twice.
	for _, path := range []string{"/session", "/private", "/vary", "/asked-anew"} {
		asked := l.asked.Load()
		first, second := l.get(path, mastodon), l.get(path, mastodon)
		if l.want(200, asked+2, second); first.Body.String() == second.Body.String() {
			t.Errorf("%s: %q twice", path, first.Body)
		}
	}
	// Of addresses that differ in anything each is its own.
	for _, target := range []string{"/page?", "/page?a=1", "/page/", "http://other.example/page", "https://example.com/page"} {
		asked := l.asked.Load()
		l.want(200, asked+1, l.get(target, mastodon))
	}
}

// TestPreviewPrivateCrowd: a crowd that waits for what turns out to be private is not held up, nor
// given it, and the next one does not wait at all.
func TestPreviewPrivateCrowd(t *testing.T) {
	release, open := gate()
	defer open()
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		<-release
		w.Header().Set("Cache-Control", "no-store")
		fmt.Fprint(w, r.Header.Get("X-Forwarded-For"))
	})
	done := make(chan struct{})
	var answers []*httptest.ResponseRecorder
	go func() {
		defer close(done)
		var requests []*http.Request
		for i := range 20 {
			requests = append(requests, l.request(http.MethodGet, "/mine", mastodon, i))
		}
		answers = l.together(requests...)
	}()
	l.waiting(19)
	open()
	l.within("the crowd", done)
	seen := map[string]bool{}
	for _, w := range answers {
		l.want(200, 20, w)
		seen[w.Body.String()] = true
	}
	if len(seen) != 20 {
		t.Errorf("%d different answers", len(seen))
	}
	l.get("/mine", mastodon)
	if got := l.uses(); got["passed"] != 1 || got["miss"] != 20 {
		t.Errorf("%v", got)
	}
}

// TestPreviewBudget: each family has a budget of its own for what goes to the site. What is answered
// from memory costs nothing, and other programs are none of the zone's business.
func TestPreviewBudget(t *testing.T) {
	l := newLinked(t, "previews {\n\tagents Own *OwnPreviewer/*\n}\nlimit 2/1h", page)
	l.want(200, 1, l.get("/a", mastodon))
	l.want(200, 2, l.get("/b", mastodon))
	w := l.get("/c", mastodon)
	if l.want(429, 2, w); w.Header().Get("Retry-After") == "" || w.Header().Get("X-Ratelimit-Limit") != "2" {
		t.Errorf("%v", w.Header())
	}
	for range 10 {
		l.want(200, 2, l.get("/a", mastodon))
	}
	l.want(200, 3, l.get("/c", discord))
	l.want(200, 3, l.get("/c", mastodon))
	l.want(200, 4, l.get("/d", "OwnPreviewer/1.0"))
	for i := range int32(5) {
		l.want(200, 5+i, l.get("/a", browser))
	}
	post := answer(l.server, l.request(http.MethodPost, "/a", discord, 0))
	l.want(200, 10, post)
	l.want(429, 10, answer(l.server, l.request(http.MethodPost, "/a", discord, 0)))
}

// TestPreviewRefused: a crowd whose budget is spent is refused at once, each of it.
func TestPreviewRefused(t *testing.T) {
	l := newLinked(t, "previews\nlimit 1/1h", page)
	l.get("/a", mastodon)
	var requests []*http.Request
	for i := range 100 {
		requests = append(requests, l.request(http.MethodGet, "/b", mastodon, i))
	}
	for _, w := range l.together(requests...) {
		l.want(429, 1, w)
	}
}
