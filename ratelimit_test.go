package weir

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	"github.com/weirhq/caddy-weir/internal/config"
)

// clock is the memory store's: tests turn it by hand.
var clock atomic.Int64

func TestMain(m *testing.M) {
	clock.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	config.Clock = func() time.Time { return time.Unix(0, clock.Load()) }
	os.Setenv("XDG_DATA_HOME", os.TempDir()+"/weir-root-test") // not that of whoever runs the tests
	os.Exit(m.Run())
}
func advance(d time.Duration) { clock.Add(int64(d)) }

// A site is a configuration that serves without a network.
type site struct {
	*caddyhttp.Server
	logFile string
}

// load runs a configuration: the JSON of the app, and of one server with these handlers
// before an answer of 200, and further fields.
func load(t testing.TB, app, handlers, server string) *site {
	t.Helper()
	s, err := tryLoad(t, app, handlers, server)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryLoad(t testing.TB, app, handlers, fields string) (*site, error) {
	t.Helper()
	logFile := filepath.Join(t.TempDir(), "log")
	if fields != "" {
		fields = ", " + fields
	}
	text := fmt.Sprintf(`{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"writer": {"output": "file", "filename": %q}, "encoder": {"format": "json"}}}},
		"apps": {
			"weir": %s,
			"tls": {"disable_ocsp_stapling": true, "disable_storage_check": true, "disable_storage_clean": true},
			"http": {"servers": {"site": {
				"automatic_https": {"disable": true},
				"routes": [{"handle": [%s, {"handler": "static_response", "body": "content"}]}] %s
			}}}
		}
	}`, logFile, app, handlers, fields)
	server, err := run([]byte(text), "site")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &site{server, logFile}, nil
}

// run runs a configuration's JSON and returns the server of that name.
func run(text []byte, name string) (*caddyhttp.Server, error) {
	if err := caddy.Load(text, true); err != nil {
		return nil, err
	}
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		return nil, err
	}
	return app.(*caddyhttp.App).Servers[name], nil
}

// get asks for a path as a client; header are names and values in turn.
func (s *site) get(client, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = client + ":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// logged returns the log lines that contain the text.
func (s *site) logged(t *testing.T, text string) []string {
	t.Helper()
	all, err := os.ReadFile(s.logFile)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// zones is the JSON of a rate_limit handler with these zones.
func zones(text string) string { return `{"handler": "rate_limit", "rate_limits": {` + text + `}}` }

const perClient = `"key": "{http.vars.client_ip}", `

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d; %v %s", w.Code, status, w.Header(), w.Body)
	}
}

func wantHeader(t *testing.T, w *httptest.ResponseRecorder, header map[string]string) {
	t.Helper()
	for name, want := range header {
		if got := strings.Join(w.Header().Values(name), " | "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRateLimit(t *testing.T) {
	s := load(t, `{}`, zones(`"api": {`+perClient+`"max_events": 2, "window": "1m"}`), "")
	w := s.get("203.0.113.1", "/")
	wantStatus(t, w, 200)
	wantHeader(t, w, map[string]string{
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "60",
		"RateLimit-Policy": `"api";q=2;w=60`, "RateLimit": `"api";r=1;t=60`, "Retry-After": "",
	})
	advance(20 * time.Second)
	wantStatus(t, s.get("203.0.113.1", "/"), 200)

	w = s.get("203.0.113.1", "/")
	wantStatus(t, w, 429)
	wantHeader(t, w, map[string]string{
		"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "40",
		"RateLimit": `"api";r=0;t=40`, "Retry-After": "40", "Cache-Control": "no-store",
	})
	// Others have budgets of their own; one client has one, in whatever form it comes.
	wantStatus(t, s.get("203.0.113.2", "/"), 200)
	wantStatus(t, s.get("[::ffff:203.0.113.1]", "/"), 429)
	// Retry-After is true.
	advance(40*time.Second - time.Millisecond)
	wantStatus(t, s.get("203.0.113.1", "/"), 429)
	advance(time.Millisecond)
	wantStatus(t, s.get("203.0.113.1", "/"), 200)
}

// A refused request is charged nowhere, L29.
func TestZonesTogether(t *testing.T) {
	s := load(t, `{"headers": "draft"}`, zones(`
		"each": {`+perClient+`"max_events": 1, "window": "1m"},
		"all":  {"max_events": 3, "window": "1h"}`), "")
	for range 5 {
		s.get("203.0.113.1", "/")
	}
	wantStatus(t, s.get("203.0.113.2", "/"), 200)
	wantStatus(t, s.get("203.0.113.3", "/"), 200)
	w := s.get("203.0.113.4", "/")
	wantStatus(t, w, 429)
	wantHeader(t, w, map[string]string{"RateLimit": `"all";r=0;t=3600`, "X-RateLimit-Limit": ""})
}

// L119.
func TestHandleErrors(t *testing.T) {
	s := load(t, `{}`, zones(`"api": {`+perClient+`"max_events": 1, "window": "1m"}`),
		`"errors": {"routes": [{"handle": [{"handler": "static_response", "body": "{http.error.status_code} {http.rate_limit.exceeded.name}"}]}]}`)
	s.get("203.0.113.1", "/")
	w := s.get("203.0.113.1", "/")
	wantStatus(t, w, 429)
	wantHeader(t, w, map[string]string{"Retry-After": "60", "X-RateLimit-Remaining": "0", "Cache-Control": "no-store"})
	if w.Body.String() != "429 api" {
		t.Errorf("body %q", w.Body)
	}
}

// A later handler replaces what an earlier one said only if it leaves less.
func TestTwoHandlers(t *testing.T) {
	wide := zones(`"wide": {` + perClient + `"max_events": 100, "window": "1h"}`)
	tight := zones(`"tight": {` + perClient + `"max_events": 5, "window": "1m"}`)
	for i, handlers := range []string{wide + "," + tight, tight + "," + wide} {
		s := load(t, `{}`, handlers, "")
		w := s.get(fmt.Sprintf("203.0.113.%d", i), "/")
		wantHeader(t, w, map[string]string{"RateLimit": `"tight";r=4;t=60`, "X-RateLimit-Limit": "5"})
		if lines := s.logged(t, "several rate_limit handlers"); len(lines) != 1 {
			t.Errorf("warnings %q", lines)
		}
	}
}

func TestReload(t *testing.T) {
	zone := func(n int) string {
		return zones(fmt.Sprintf(`"api": {%s"max_events": %d, "window": "1m"}`, perClient, n))
	}
	old := load(t, `{}`, zone(3), "")
	for range 3 {
		wantStatus(t, old.get("203.0.113.1", "/"), 200)
	}
	wantStatus(t, old.get("203.0.113.1", "/"), 429)

	// L88: a reload keeps counts and applies new numbers at once.
	now := load(t, `{}`, zone(4), "")
	wantHeader(t, now.get("203.0.113.1", "/"), map[string]string{"X-RateLimit-Limit": "4", "X-RateLimit-Remaining": "0"})
	wantStatus(t, now.get("203.0.113.1", "/"), 429)

	// A reload that fails loses nothing, neither at once nor with the next.
	if _, err := tryLoad(t, `{}`, zone(0), ""); err == nil {
		t.Fatal("a limit of 0 was accepted")
	}
	wantStatus(t, now.get("203.0.113.1", "/"), 429)
	next := load(t, `{}`, zone(4), "")
	wantStatus(t, next.get("203.0.113.1", "/"), 429)

	// Requests of an old configuration still count.
	wantStatus(t, old.get("203.0.113.2", "/"), 200)
	wantHeader(t, next.get("203.0.113.2", "/"), map[string]string{"X-RateLimit-Remaining": "2"})
}

func TestBlock(t *testing.T) {
	s := load(t, `{}`, `{"handler": "block", "body": "{http.block.rule}", "rules": [
		{"name": "bots", "user_agent": ["*bot*"]},
		{"name": "trial", "path": ["/trial"], "dry_run": true},
		{"name": "gone", "path": ["/gone"], "action": 410}]}`, "")
	for path, status := range map[string]int{"/": 200, "/trial": 200, "/gone": 410} {
		wantStatus(t, s.get("203.0.113.1", path), status)
	}
	w := s.get("203.0.113.1", "/", "User-Agent", "A Bot 1.0")
	wantStatus(t, w, 403)
	wantHeader(t, w, map[string]string{"Cache-Control": "no-store"})
	if w.Body.String() != "bots" {
		t.Errorf("body %q", w.Body)
	}
	if lines := s.logged(t, `"rule":"trial"`); len(lines) != 1 || !strings.Contains(lines[0], `"dry_run":true`) {
		t.Errorf("logged %q", lines)
	}
}

// The whole of a configuration is checked at once.
func TestProvisionErrors(t *testing.T) {
	zone := func(cost int) string {
		return zones(fmt.Sprintf(`"api": {"key": "x", "max_events": 9, "window": "1m", "cost": %d}`, cost))
	}
	for _, test := range []struct{ app, handler, want string }{
		{`{"ipv4_prefix": 99, "max_keys": -1}`, zone(1), "ipv4_prefix: must be between 1 and 32, got 99\nmax_keys: must be between 1 and 1000000000, got -1"},
		{`{"redis": {"addresses": ["localhost:1"], "password": "{env.WEIR_TEST_UNSET}"}}`, zone(1), "redis: password: "},
		{`{}`, `{"handler": "block", "no_shared": true}`, "refuses nothing"},
		{`{}`, zone(0), `zone "api": cost: must be between 1 and`},
		// Both places are named.
		{`{}`, zone(1) + "," + zone(2), `zone "api": cost: "1" in rate_limit handler 1 of server "site", but "2" in rate_limit handler 2 of server "site"`},
	} {
		_, err := tryLoad(t, test.app, test.handler, "")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: error %v, want %s", test.app, test.handler, err, test.want)
		}
	}
}

// nowhere is a response writer without a client.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (w *nowhere) WriteHeader(int)             {}

// handler returns what calls the site's rate_limit handler alone, as one client with one
// request over and over.
func (s *site) handler(tb testing.TB, path string) func() {
	h := s.Routes[0].Handlers[0].(*RateLimit)
	w := &nowhere{make(http.Header)}
	next := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	var r *http.Request
	calls := 0
	return func() {
		// A refusal leaves placeholders behind: no request is used for long.
		if calls%256 == 0 {
			r = httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = "203.0.113.1:4711"
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, s.Server)
		}
		calls++
		clear(w.header)
		if err := h.ServeHTTP(w, r, next); err != nil {
			tb.Fatal(err)
		}
	}
}

// benchZone has a placeholder key, a path matcher and both header families.
func benchZone(tb testing.TB, events int) *site {
	return load(tb, `{}`, zones(fmt.Sprintf(`"api": {%s"max_events": %d, "window": "1m", "match": [{"path": ["/api/*"]}]}`,
		perClient, events)), "")
}

func BenchmarkHandler(b *testing.B) {
	for name, events := range map[string]int{"allowed": 1_000_000_000, "refused": 1} {
		b.Run(name, func(b *testing.B) {
			serve := benchZone(b, events).handler(b, "/api/v1/items")
			serve()
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}

func TestHandlerAllocations(t *testing.T) {
	const most = 8
	for name, events := range map[string]int{"allowed": 1_000_000_000, "refused": 1} {
		serve := benchZone(t, events).handler(t, "/api/v1/items")
		serve()
		// The least of many: the race detector makes pools forget.
		least := testing.AllocsPerRun(1, serve)
		for range 100 {
			least = min(least, testing.AllocsPerRun(1, serve))
		}
		if least > most {
			t.Errorf("%s: %v allocations, want at most %d", name, least, most)
		}
	}
}

// serve runs a site's directives without a network, for examples.
func serve(directives string) *site {
	const options = "{\nadmin off\npersist_config off\nlog {\noutput discard\n}\n}\n"
	text := caddyfile.Format([]byte(options + ":80 {" + directives + "\n}\n"))
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, nil)
	if err != nil || len(warnings) > 0 {
		panic(fmt.Sprint(err, warnings))
	}
	adapted = bytes.Replace(adapted, []byte(`"listen":[":80"],`), nil, 1)
	server, err := run(adapted, "srv0")
	if err != nil {
		panic(err)
	}
	return &site{Server: server}
}

func ExampleRateLimit() {
	defer caddy.Stop()
	site := serve(`
	rate_limit {
		zone feed {
			match {
				path /feed.xml
			}
			key {client_ip}
			limit 2/1h
		}
	}
	respond "news"`)
	for range 3 {
		answer := site.get("203.0.113.1", "/feed.xml")
		fmt.Println(answer.Code, answer.Header()["Ratelimit"], answer.Header()["Retry-After"])
	}
	fmt.Println(site.get("203.0.113.1", "/").Code)
	// Output:
	// 200 ["feed";r=1;t=3600] []
	// 200 ["feed";r=0;t=3600] []
	// 429 ["feed";r=0;t=3600] [3600]
	// 200
}

func ExampleBlock() {
	defer caddy.Stop()
	site := serve(`
	block {
		rule bots {
			user_agent *bot*
		}
	}
	respond "news"`)
	fmt.Println(site.get("203.0.113.1", "/").Code)
	fmt.Println(site.get("203.0.113.1", "/", "User-Agent", "Greedybot/2.0").Code)
	// Output:
	// 200
	// 403
}
