package week

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/config"
)

// virtual is what the clock of limits shows, in nanoseconds; 0 for the system's. What Caddy does in
// the background reads it too.
var virtual atomic.Int64

var installClock = sync.OnceFunc(func() {
	config.Clock = func() time.Time {
		if at := virtual.Load(); at != 0 {
			return time.Unix(0, at).UTC()
		}
		return time.Now()
	}
})

func setClock(t time.Time) {
	installClock()
	virtual.Store(t.UnixNano())
}

func resetClock() { virtual.Store(0) }

// A site is a Caddy that serves the blog, without a network. There is one at a time in a
// process.
type site struct {
	world  World
	server *caddyhttp.Server
}

// caddyfile is that of a site: %q is its folder, the first %s what stands before the file server,
// the second what serves.
const caddyfile = `{
	auto_https off
}
http:// {
	root %q
	route {
		%s
		week_arrivals
		%s
	}
}
`

// serve runs a Caddy on a folder, with these lines before its file server.
func serve(w World, dir, lines string, precompressed bool) (*site, error) {
	server := "encode gzip\n\t\tfile_server"
	if precompressed {
		server = "file_server {\n\t\t\tprecompressed gzip\n\t\t}"
	}
	text := fmt.Sprintf(caddyfile, dir, lines, server)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	if err != nil {
		return nil, err
	}
	var conf map[string]any
	if err := json.Unmarshal(adapted, &conf); err != nil {
		return nil, err
	}
	conf["admin"] = map[string]any{"disabled": true, "config": map[string]any{"persist": false}}
	conf["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}}
	const name = "srv0"
	delete(conf["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any)[name].(map[string]any), "listen")
	data, err := json.Marshal(conf)
	if err != nil {
		return nil, err
	}
	if err := caddy.Load(data, true); err != nil {
		return nil, err
	}
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		return nil, errors.Join(err, caddy.Stop())
	}
	return &site{world: w, server: app.(*caddyhttp.App).Servers[name]}, nil
}

func (s *site) close() error { return caddy.Stop() }

// ask sends a request and returns what became of it.
func (s *site) ask(q *http.Request) answer {
	w := wire{header: make(http.Header)}
	a := answer{method: q.Method}
	s.server.ServeHTTP(&w, withArrival(q, &a.arrived))
	w.begin(http.StatusOK)
	a.status, a.head, a.body = w.status, w.head, w.body
	a.tag, a.date = w.header.Get("Etag"), w.header.Get("Last-Modified")
	a.retryAfter = seconds(w.header.Get("Retry-After"))
	if age, found := strings.CutPrefix(w.header.Get("Cache-Control"), "max-age="); found {
		a.maxAge = seconds(age)
	}
	return a
}

func seconds(text string) time.Duration {
	n, _ := strconv.Atoi(text) // 0 if there is none
	return time.Duration(n) * time.Second
}

// validators are those of a version.
type validators struct{ tag, date string }

// validators asks for those of the feed, as a client does that takes gzip.
func (s *site) validators() (validators, error) {
	a := s.ask(newRequest(http.MethodGet, "192.0.2.1:40000", http.Header{"Accept-Encoding": {"gzip"}}))
	if a.status != http.StatusOK || a.tag == "" || a.date == "" {
		return validators{}, fmt.Errorf("the feed is answered with status %d, tag %q, date %q", a.status, a.tag, a.date)
	}
	return validators{a.tag, a.date}, nil
}

func newRequest(method, addr string, h http.Header) *http.Request {
	return &http.Request{
		Method: method, URL: &url.URL{Path: "/feed.xml"}, RequestURI: "/feed.xml", Host: "blog.example",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: http.NoBody, RemoteAddr: addr,
	}
}

// An answer is what came back.
type answer struct {
	method     string
	status     int
	head, body int64 // bytes
	arrived    bool  // at what serves the site
	tag, date  string
	maxAge     time.Duration
	retryAfter time.Duration
}

func (a *answer) refused() bool { return a.status >= http.StatusBadRequest }

// A wire takes an answer and counts what it weighs in HTTP/1.1.
type wire struct {
	header     http.Header
	status     int
	head, body int64
}

// Header implements [http.ResponseWriter].
func (w *wire) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *wire) WriteHeader(status int) { w.begin(status) }

// Write implements [http.ResponseWriter].
func (w *wire) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	w.body += int64(len(p))
	return len(p), nil
}

// ReadFrom implements [io.ReaderFrom].
func (w *wire) ReadFrom(from io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	n, err := io.Copy(io.Discard, from)
	w.body += n
	return n, err
}

// begin counts the status line and the fields, with those that Go's server adds.
func (w *wire) begin(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	w.head = int64(len("HTTP/1.1 200 \r\n\r\n") + len(http.StatusText(status)) + len("Date: Mon, 02 Mar 2026 00:00:00 GMT\r\n"))
	for name, values := range w.header {
		for _, value := range values {
			w.head += int64(len(name) + len(": \r\n") + len(value))
		}
	}
	if w.header["Content-Length"] == nil && status != http.StatusNotModified {
		w.head += int64(len("Transfer-Encoding: chunked\r\n"))
	}
}
