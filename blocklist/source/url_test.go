package source

import (
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a server of one list and makes a source of it.
func serve(t *testing.T, h http.HandlerFunc, how Download, o Options) (*download, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return source(t, server.URL+"/list.txt", how, o), server
}

func source(t *testing.T, address string, how Download, o Options) *download {
	t.Helper()
	s, err := URL(address, how, o)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*download)
}

// once asks the server one time, and returns the list if it is a new one.
func (d *download) once(t *testing.T) (p Parsed, differs bool, wait time.Duration) {
	t.Helper()
	d.load.Lock()
	defer d.load.Unlock()
	return d.try(t.Context())
}

// TestURLErrors: what servers send instead of a list, and what is said of it (L128). The list in
// use stays in use.
func TestURLErrors(t *testing.T) {
	const good = "198.51.100.1\n"
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	tests := []struct {
		name string
		bad  http.HandlerFunc
		want string
	}{
		{"page", text("<!DOCTYPE html><p>Just a moment"), "is a web page, not a list"},
		{"nothing", text(""), "is empty"},
		{"nothing but comments", text("# nothing\n"), "is empty, and had 1 entries: it stays as it was"},
		{"not found", http.NotFound, "the server answered 404 Not Found"},
		{"key is wrong", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "the server answered 401 Unauthorized"},
		{"no content", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "the server answered 204 No Content"},
		{"a status that nobody knows", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) }, "the server answered 599"},
		{"half a body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, good)
		}, "is not whole: unexpected EOF"},
		{"connection is cut", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, good)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "is not whole: unexpected EOF"},
		{"half a document", text(`["198.51.100.1",`), "is not whole: line 1: ends too early: unexpected EOF"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < 100_000; i++ {
				if _, err := io.WriteString(w, "# "+good); err != nil {
					return
				}
			}
		}, "is larger than 100000 bytes"},
		{"gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 1000 {
				if _, err := z.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
			_ = z.Close()
		}, "is no text in UTF-8"},
		{"gzip bomb of comments", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 2000 {
				if _, err := io.WriteString(z, "#"+strings.Repeat(" ", 98)+"\n"); err != nil {
					return
				}
			}
			_ = z.Close()
		}, "is larger than 100000 bytes"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "took longer than 100ms"},
		{"slow body", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, good)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "took longer than 100ms"},
		{"redirect loop", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}, "is sent elsewhere more than 5 times"},
		{"redirect to a file", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "ftp://example.com/list", http.StatusFound)
		}, "is sent from http to ftp at example.com"},
		{"too many", text(many(2000)), "has more than 1000 entries"},
		{"nonsense", text("Rate limit exceeded\n"), `has more lines that make no sense as plain (1) than lines that do (0); the first is line 1: "Rate limit exceeded": must be an address or a CIDR range`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer := text(good)
			d, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) },
				Download{Dir: t.TempDir()}, Options{Limits: Limits{MaxBytes: 100_000, MaxEntries: 1000}})
			if p, differs, _ := d.once(t); !differs || len(p.Prefixes) != 1 {
				t.Fatalf("got %+v, %+v", p, d.Status())
			}
			answer = tt.bad
			if strings.HasPrefix(tt.name, "slow") {
				d.how.Timeout = 100 * time.Millisecond
			}
			p, differs, wait := d.once(t)
			st := d.Status()
			if differs || st.Error != tt.want || st.Prefixes != 1 || st.Failures != 1 || !st.Success.Before(st.Try) {
				t.Errorf("got %+v, status %+v\nwant %s", p, st, tt.want)
			}
			if wait < unreached || wait > 2*time.Minute {
				t.Errorf("the next try is after %s", wait)
			}
			// What was saved is the good list still.
			if p, err := source(t, d.address.String(), d.how, d.options).Load(); err != nil || len(p.Prefixes) != 1 {
				t.Errorf("the copy: %+v, %v", p, err)
			}
		})
	}
}

// TestURLShrinks: a list that lost more than half is kept, unless that is wanted.
func TestURLShrinks(t *testing.T) {
	n := 100
	d, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, many(n)) }, Download{Dir: t.TempDir()}, Options{})
	for _, step := range []struct {
		n, left int
		err     string
	}{
		{100, 100, ""},
		{51, 51, ""},
		{25, 51, "has only 25 entries, and had 51: it stays as it was"},
		{26, 26, ""},
	} {
		n = step.n
		d.once(t)
		if st := d.Status(); st.Prefixes != step.left || st.Error != step.err {
			t.Errorf("%d entries: %+v", n, st)
		}
	}
	// After a restart too.
	n = 12
	again := source(t, d.address.String(), d.how, Options{})
	if _, err := again.Load(); err != nil {
		t.Fatal(err)
	}
	if again.once(t); again.Status().Prefixes != 26 {
		t.Errorf("after a restart: %+v", again.Status())
	}
	again.options.AcceptShrunken = true
	if again.once(t); again.Status().Prefixes != 12 {
		t.Errorf("accepted: %+v", again.Status())
	}
}

// TestURLIsPolite: we say who we are, and what we have.
func TestURLIsPolite(t *testing.T) {
	var got *http.Request
	status, list := http.StatusOK, many(3)
	d, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")
		w.Header().Set("Cache-Control", "public, max-age=172800")
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = io.WriteString(w, list)
		}
	}, Download{Dir: t.TempDir(), Header: http.Header{"x-api-key": {"s3cret-key"}}}, Options{})

	_, differs, wait := d.once(t)
	if !differs || got.Header.Get("If-None-Match") != "" || got.Header.Get("If-Modified-Since") != "" ||
		!strings.HasPrefix(got.UserAgent(), "Weir (+https://") || got.Header.Get("X-Api-Key") != "s3cret-key" || got.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("first: %v, %v", differs, got.Header)
	}
	if wait != 48*time.Hour {
		t.Errorf("the server said two days, we wait %s", wait)
	}

	status = http.StatusNotModified
	before := d.Status().Success
	if _, differs, _ = d.once(t); differs || got.Header.Get("If-None-Match") != `"v1"` || got.Header.Get("If-Modified-Since") != "Mon, 30 Nov 2026 12:00:00 GMT" {
		t.Errorf("second: %v, %v", differs, got.Header)
	}
	if st := d.Status(); st.Error != "" || st.Prefixes != 3 || !st.Success.After(before) {
		t.Errorf("not modified: %+v", st)
	}

	// A restart has the copy, and asks with what it knows.
	again := source(t, server.URL+"/list.txt", d.how, Options{})
	if p, err := again.Load(); err != nil || len(p.Prefixes) != 3 || !again.Status().FromCopy || !again.Status().Success.Equal(d.Status().Success) {
		t.Errorf("after a restart: %+v, %v, %+v", p, err, again.Status())
	}
	if again.once(t); got.Header.Get("If-None-Match") != `"v1"` || again.Status().Error != "" {
		t.Errorf("after a restart: %v, %+v", got.Header, again.Status())
	}

	// The same list sent again is no change.
	status = http.StatusOK
	if _, differs, _ = again.once(t); differs || again.Status().FromCopy {
		t.Errorf("sent again: differs %t, %+v", differs, again.Status())
	}

	// Whoever has no list asks for all of it.
	other := source(t, server.URL+"/list.txt", Download{Dir: d.how.Dir}, Options{}) // without the header: another list
	if p, err := other.Load(); err != nil || p.Len() != 0 {
		t.Errorf("another header: %+v, %v", p, err)
	}
	if other.once(t); got.Header.Get("If-None-Match") != "" {
		t.Errorf("another header: %v", got.Header)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, " 7 ": 7 * time.Second, "Mon, 30 Nov 2026 13:00:00 GMT": time.Hour,
		"Mon, 30 Nov 2026 11:00:00 GMT": 0, "-5": 0, "soon": 0, "99999999999999": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	for value, want := range map[string]time.Duration{
		"": 0, "max-age=60": time.Minute, `private, MAX-AGE="60"`: time.Minute, "s-maxage=60": 0, "max-age=x": 0, "no-cache": 0,
	} {
		if got := maxAge(http.Header{"Cache-Control": {value}}); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	// The server's word counts, as far as it is one to believe.
	seconds := "7200"
	d, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", seconds)
		w.WriteHeader(http.StatusTooManyRequests)
	}, Download{}, Options{})
	if _, _, wait := d.once(t); wait < 2*time.Hour || wait > 150*time.Minute || d.Status().Error != "the server answered 429 Too Many Requests" {
		t.Errorf("wait %s, %+v", wait, d.Status())
	}
	seconds = "2000000000"
	if _, _, wait := d.once(t); wait < patience || wait > patience+longestWait {
		t.Errorf("wait %s", wait)
	}
}

// TestCertificate: what is wrong with it is said.
func TestCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	d := source(t, server.URL+"/list?key=abcdef", Download{}, Options{})
	d.once(t)
	if got := d.Status().Error; !strings.HasPrefix(got, "tls: failed to verify certificate: x509: ") || strings.Contains(got, "abcdef") {
		t.Errorf("got %s", got)
	}
	// From https to http is no way to go.
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") }))
	defer plain.Close()
	server.Config.Handler = http.RedirectHandler(plain.URL, http.StatusFound)
	d = source(t, server.URL+"/list", Download{transport: server.Client().Transport}, Options{})
	d.once(t)
	if want := "is sent from https to http at " + strings.TrimPrefix(plain.URL, "http://"); d.Status().Error != want {
		t.Errorf("got %s, want %s", d.Status().Error, want)
	}
}

// TestPackedFile: a list that is a .gz file, whatever its content type.
func TestPackedFile(t *testing.T) {
	d, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/gzip")
		_, _ = io.WriteString(w, packed(t, many(5)))
	}, Download{Dir: t.TempDir()}, Options{})
	if p, _, _ := d.once(t); len(p.Prefixes) != 5 {
		t.Errorf("got %+v, %+v", p, d.Status())
	}
	if p, err := source(t, d.address.String(), d.how, Options{}).Load(); err != nil || len(p.Prefixes) != 5 {
		t.Errorf("the copy: %+v, %v", p, err)
	}
}

// quiet swallows what a server says of clients that do not trust it.
var quiet = log.New(io.Discard, "", 0)
