package respond

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/standard"
)

func init() {
	caddy.RegisterModule(new(refuser))
	httpcaddyfile.RegisterHandlerDirective("refuse", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		f := new(refuser)
		h.Next()
		var status string
		if !h.Args(&status) {
			return nil, h.ArgErr()
		}
		var err error
		f.Status, err = strconv.Atoi(status)
		return f, err
	})
}

// refuser is a handler that refuses everything.
type refuser struct {
	Status int `json:"status"`
}

func (*refuser) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.respond_refuse", New: func() caddy.Module { return new(refuser) }}
}

func (f *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	// What a rate limit has written before it refuses.
	w.Header().Set("RateLimit", `"api";r=0;t=7`)
	err := Refuse(w, r, &Refusal{Status: f.Status, Wait: 7 * time.Second})
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if code, left := repl.Get("http.error.status_code"); err == nil && left && code == f.Status {
		w.Header().Set("X-Left", "an error placeholder")
	}
	return err
}

// serve returns the server of a Caddyfile, which listens nowhere.
func serve(t testing.TB, text string) http.Handler {
	t.Helper()
	text = "{\n\tauto_https off\n\tlog {\n\t\tlevel FATAL\n\t}\n}\n" + text
	config, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	var c caddy.Config
	if err := json.Unmarshal(config, &c); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&c)
	if err != nil {
		t.Fatal(err)
	}
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	servers := slices.Collect(maps.Values(app.(*caddyhttp.App).Servers))
	if len(servers) != 1 {
		t.Fatalf("%d servers, want 1", len(servers))
	}
	return servers[0]
}

// TestErrorRoutes: L119, the site's own error pages run, with our fields; where there is
// none for a refusal it is answered directly.
func TestErrorRoutes(t *testing.T) {
	const (
		direct429 = "Too Many Requests. Try again in 7 s.\n"
		direct403 = "Forbidden. Try again in 7 s.\n"
	)
	tests := []struct {
		name, config, url string
		status            int
		body              string
	}{
		{
			name:   "none",
			config: "http://a.test {\n route {\n refuse 429\n }\n }",
			url:    "http://a.test/", status: 429, body: direct429,
		},
		{
			name:   "for all codes",
			config: "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n respond \"page: {err.status_code} {err.message}\"\n }\n }",
			url:    "http://a.test/", status: 429, body: "page: 429 Too Many Requests. Try again in 7 s",
		},
		{
			name:   "for this code",
			config: "http://a.test {\n route {\n refuse 403\n }\n handle_errors 403 {\n respond \"page\"\n }\n }",
			url:    "http://a.test/", status: 403, body: "page",
		},
		{
			name:   "for a class of codes",
			config: "http://a.test {\n route {\n refuse 429\n }\n handle_errors 5xx 4xx {\n respond \"page\" 503\n }\n }",
			url:    "http://a.test/", status: 503, body: "page",
		},
		{
			name:   "for other codes",
			config: "http://a.test {\n route {\n refuse 403\n }\n handle_errors 404 429 5xx {\n respond \"page\"\n }\n }",
			url:    "http://a.test/", status: 403, body: direct403,
		},
		{
			name: "of another site",
			config: "http://a.test {\n route {\n refuse 429\n }\n }\n" +
				"http://b.test {\n handle_errors {\n respond \"page\"\n }\n }",
			url: "http://a.test/", status: 429, body: direct429,
		},
		{
			name: "of two sites",
			config: "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n respond \"a\"\n }\n }\n" +
				"http://b.test {\n handle_errors {\n respond \"b\"\n }\n }",
			url: "http://a.test/", status: 429, body: "a",
		},
		{
			name:   "of another path",
			config: "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n @api path /api/*\n respond @api \"page\"\n }\n }",
			url:    "http://a.test/feed", status: 429, body: direct429,
		},
		{
			name:   "of the path before a rewrite",
			config: "http://a.test {\n route {\n rewrite * /index\n refuse 429\n }\n handle_errors {\n @api path /api/*\n respond @api \"page\"\n }\n }",
			url:    "http://a.test/api/x", status: 429, body: "page",
		},
		{
			name:   "with handles",
			config: "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n handle /api/* {\n respond \"api\"\n }\n handle {\n respond \"page\"\n }\n }\n }",
			url:    "http://a.test/", status: 429, body: "page",
		},
		{
			// Caddy would send the first error's status with no body.
			name:   "in an error route",
			config: "http://a.test {\n error 404\n handle_errors {\n route {\n refuse 429\n }\n respond \"page\"\n }\n }",
			url:    "http://a.test/", status: 429, body: direct429,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			serve(t, tt.config).ServeHTTP(w, httptest.NewRequest("GET", tt.url, nil))
			if got := w.Body.String(); w.Code != tt.status || got != tt.body {
				t.Errorf("got %d %q, want %d %q", w.Code, got, tt.status, tt.body)
			}
			for name, want := range map[string]string{
				"RateLimit": `"api";r=0;t=7`, "Retry-After": "7", "Cache-Control": "no-store",
			} {
				if got := w.Header().Values(name); !slices.Equal(got, []string{want}) {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if left := w.Header().Get("X-Left"); left != "" {
				t.Errorf("%s was left behind", left)
			}
		})
	}
}

// BenchmarkErrorRoutes shows what error pages cost, of this site and of another.
func BenchmarkErrorRoutes(b *testing.B) {
	const site = "http://a.test {\n route {\n refuse 429\n }\n }\n"
	for name, config := range map[string]string{
		"none":           site,
		"another site's": site + "http://b.test {\n handle_errors {\n respond \"page\"\n }\n }",
		"the site's":     "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n respond \"page\"\n }\n }",
	} {
		b.Run(name, func(b *testing.B) {
			server, w := serve(b, config), blank{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				server.ServeHTTP(w, httptest.NewRequest("GET", "http://a.test/", nil))
			}
		})
	}
}
