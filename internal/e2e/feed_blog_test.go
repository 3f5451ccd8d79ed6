package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/config"
)

// A blog is a real Caddy with its real file server, which serves without a network and by a
// clock that the test moves.
type blog struct {
	*testing.T
	server *caddyhttp.Server
	root   string
	now    time.Time
}

// blogClock is what the clock of this process shows while a blog runs; 0 for the system's. What
// Caddy does in the background reads it too, also for a moment after it was stopped.
var blogClock atomic.Int64

var installClock = sync.OnceFunc(func() {
	config.Clock = func() time.Time {
		if at := blogClock.Load(); at != 0 {
			return time.Unix(0, at).UTC()
		}
		return time.Now()
	}
})

// newBlog runs a Caddyfile with these lines in the block of the zone "feed", before a file
// server. It must not run beside other tests: the clock is one for the process.
func newBlog(t *testing.T, lines string) *blog {
	t.Helper()
	b := &blog{T: t, root: t.TempDir(), now: clockStart}
	installClock()
	blogClock.Store(b.now.UnixNano())
	t.Cleanup(func() { blogClock.Store(0) })
	b.server = loadSite(t, fmt.Sprintf(`{
	weir {
		headers off
	}
}
http:// {
	root %q
	rate_limit {
		zone feed {
			match path /feed* /rss* /blog*
			%s
		}
	}
	encode gzip
	file_server
}
`, b.root, strings.ReplaceAll(lines, "\n", "\n\t\t\t")))
	b.publish("/feed.xml", "")
	return b
}

// publish writes a feed of some 7 kB with a hint, modified now.
func (b *blog) publish(path, hint string) {
	b.Helper()
	body := "<rss version=\"2.0\"><channel><title>Notes</title>" + hint + "<item><title>" + b.now.String() + "</title><description>" +
		strings.Repeat("The water stood high. ", 320) + "</description></item></channel></rss>\n"
	file := filepath.Join(b.root, filepath.FromSlash(path))
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Chtimes(file, b.now, b.now); err != nil {
		b.Fatal(err)
	}
}

func (b *blog) pass(span time.Duration) {
	b.now = b.now.Add(span)
	blogClock.Store(b.now.UnixNano())
}

// ask sends a request; header are names and values in turn.
func (b *blog) ask(method, client, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = client + ":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	return w
}

// get asks for the feed, and wants one of these statuses.
func (b *blog) get(want int, client string, header ...string) *httptest.ResponseRecorder {
	b.Helper()
	w := b.ask(http.MethodGet, client, "/feed.xml", header...)
	if w.Code != want {
		b.Errorf("%s %v: %d, want %d; %v", b.now.Format(time.DateTime), header, w.Code, want, w.Header())
	}
	return w
}

// tag is the validator of the feed as somebody gets it who was never here before.
func (b *blog) tag() string { return b.fresh().Get("Etag") }

func (b *blog) fresh() http.Header {
	b.Helper()
	strangers++
	return b.get(http.StatusOK, fmt.Sprintf("[2001:db8:%x::1]", strangers)).Header()
}

var strangers int

// often asks every so often for a span of time, and counts the statuses.
func (b *blog) often(every, span time.Duration, client string, header ...string) map[int]int {
	counts := make(map[int]int)
	for end := b.now.Add(span); b.now.Before(end); b.pass(every) {
		counts[b.ask(http.MethodGet, client, "/feed.xml", header...).Code]++
	}
	return counts
}
