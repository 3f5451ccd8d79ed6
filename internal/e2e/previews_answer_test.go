package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestPreviewStatuses: what is not there is known for a moment, what has moved for longer; other
// answers are not given twice.
func TestPreviewStatuses(t *testing.T) {
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/new", http.StatusMovedPermanently)
		case "/see":
			http.Redirect(w, r, "/new", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		case "/denied":
			w.WriteHeader(http.StatusForbidden)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "short")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	for path, want := range map[string]struct {
		status int
		asked  int32
	}{"/moved": {301, 1}, "/see": {302, 2}, "/missing": {404, 1}, "/denied": {403, 2}} {
		before := l.asked.Load()
		first := l.get(path, mastodon)
		w := l.get(path, mastodon)
		if l.want(want.status, before+want.asked, w); w.Header().Get("Location") != first.Header().Get("Location") || w.Body.String() != first.Body.String() {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for range 2 { // what was cut off is not kept, and holds nobody up
		func() {
			defer func() { _ = recover() }()
			l.get("/cut", mastodon)
		}()
	}
	if got := l.asked.Load(); got != 8 {
		t.Errorf("%d reached the site", got)
	}
}

// TestPreviewCodings: a copy is given to who can read it; others have their own fetched.
func TestPreviewCodings(t *testing.T) {
	l := newLinked(t, "previews", page)
	l.want(200, 1, l.get("/a", mastodon, "Accept-Encoding", "gzip"))
	w := l.get("/a", mastodon)
	if l.want(200, 2, w); w.Header().Get("Content-Encoding") != "" {
		t.Errorf("%v", w.Header())
	}
	w = l.get("/a", mastodon, "Accept-Encoding", "gzip;q=0.5")
	if l.want(200, 2, w); w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", w.Header())
	}
	l.want(206, 2, l.get("/a", mastodon, "Range", "bytes=0-9"))
	l.want(200, 3, l.get("/new", mastodon, "If-None-Match", `"x"`)) // goes by itself
	l.want(200, 4, l.get("/new", mastodon))
}

// TestPreviewDryRun: nothing is answered from memory, and what would be is counted.
func TestPreviewDryRun(t *testing.T) {
	l := newLinked(t, "previews\nlimit 1/1h\ndry_run", page)
	for i := range int32(3) {
		w := l.get("/a", mastodon)
		if l.want(200, i+1, w); w.Header().Get("Cache-Status") != "" {
			t.Errorf("%v", w.Header())
		}
	}
	l.want(200, 4, answer(l.server, l.request(http.MethodHead, "/b", mastodon, 0)))
	if got := l.uses(); got["miss"] != 1 || got["dry_hit"] != 2 || got["passed"] != 1 {
		t.Errorf("%v", got)
	}
	if _, ok := l.methods.Load(http.MethodHead); !ok {
		t.Error("a dry run has changed a request")
	}
}

// TestPreviewDryRunWaitsForNobody: in a dry run nobody is held up.
func TestPreviewDryRunWaitsForNobody(t *testing.T) {
	release, open := gate()
	defer open()
	l := newLinked(t, "previews\ndry_run", func(w http.ResponseWriter, r *http.Request) {
		<-release
		page(w, r)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.together(l.request(http.MethodGet, "/a", mastodon, 0), l.request(http.MethodGet, "/a", mastodon, 1))
	}()
	if !poll(func() bool { return l.asked.Load() == 2 }) {
		t.Error("the second waits for the first")
	}
	open()
	l.within("the two", done)
	if got := l.uses(); got["miss"] != 1 || got["dry_hit"] != 1 {
		t.Errorf("%v", got)
	}
}

// TestPreviewHold: a copy is given for as long as the zone says, or the site if that is less.
func TestPreviewHold(t *testing.T) {
	now := clockStart
	installClock()
	blogClock.Store(now.UnixNano())
	t.Cleanup(func() { blogClock.Store(0) })
	pass := func(span time.Duration) {
		now = now.Add(span)
		blogClock.Store(now.UnixNano())
	}
	l := newLinked(t, "previews {\n\thold 2m\n}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/news" {
			w.Header().Set("Cache-Control", "max-age=30")
		}
		page(w, r)
	})
	l.want(200, 1, l.get("/a", mastodon))
	l.want(200, 2, l.get("/news", mastodon))
	pass(29 * time.Second)
	l.want(200, 2, l.get("/news", mastodon))
	pass(time.Second)
	l.want(200, 3, l.get("/news", mastodon))
	pass(89 * time.Second)
	// A reload forgets nothing.
	reloadSite(t, l.caddyfile())
	l.server = siteServer(t)
	w := l.get("/a", mastodon)
	if l.want(200, 3, w); w.Header().Get("Age") != "119" {
		t.Errorf("Age %q", w.Header().Get("Age"))
	}
	pass(time.Second)
	l.want(200, 4, l.get("/a", mastodon))
}

// TestPreviewKinds: a site that gives a page or data by what is accepted, and does not say so, has each
// asked for once, and nobody gets the other.
func TestPreviewKinds(t *testing.T) {
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		kind := "text/html"
		if r.Header.Get("Accept") == "application/activity+json" {
			kind = "application/activity+json"
		}
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, kind)
	})
	for i := range int32(4) {
		for n, kind := range []string{"text/html", "application/activity+json"} {
			w := l.get("/post", mastodon, "Accept", kind)
			if l.want(200, min(2*i+int32(n)+1, 2), w); w.Body.String() != kind || w.Header().Get("Content-Type") != kind {
				t.Errorf("who accepts %s gets %q", kind, w.Body)
			}
		}
	}
}

// TestPreviewForwarded: what a site answers who was asked by http of a front is not for those who asked by https.
func TestPreviewForwarded(t *testing.T) {
	l := newLinked(t, "previews", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-Proto") == "http" {
			http.Redirect(w, r, "https://"+r.Host+r.URL.Path, http.StatusMovedPermanently)
			return
		}
		page(w, r)
	})
	for range 2 {
		l.want(http.StatusMovedPermanently, 1, l.get("/post", mastodon, "X-Forwarded-Proto", "http"))
	}
	for range 2 {
		l.want(http.StatusOK, 2, l.get("/post", mastodon, "X-Forwarded-Proto", "https"))
	}
}
