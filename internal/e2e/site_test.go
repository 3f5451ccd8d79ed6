package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	caddyserver "github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// loadSite runs a Caddyfile with one site in this process, and returns its server, which serves
// without a network. It must not run beside other tests: there is one Caddy in a process.
func loadSite(t *testing.T, caddyfile string) *caddyhttp.Server {
	t.Helper()
	reloadSite(t, caddyfile)
	t.Cleanup(func() {
		if err := caddyserver.Stop(); err != nil {
			t.Error(err)
		}
	})
	return siteServer(t)
}

// reloadSite puts another Caddyfile in the place of the one that runs.
func reloadSite(t *testing.T, caddyfile string) {
	t.Helper()
	text, err := adapt(caddyfile)
	if err != nil {
		t.Fatal(err)
	}
	var conf map[string]any
	if err := json.Unmarshal([]byte(text), &conf); err != nil {
		t.Fatal(err)
	}
	conf["admin"] = map[string]any{"disabled": true, "config": map[string]any{"persist": false}}
	conf["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}}
	servers := conf["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any)
	site := servers["srv0"].(map[string]any)
	delete(site, "listen")
	site["automatic_https"] = map[string]any{"disable": true}
	data, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddyserver.Load(data, true); err != nil {
		t.Fatal(err)
	}
}

// siteServer is the server of the site that runs.
func siteServer(t *testing.T) *caddyhttp.Server {
	t.Helper()
	app, err := caddyserver.ActiveContext().App("http")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddyhttp.App).Servers["srv0"]
}

// answer has a server answer a request.
func answer(server http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}
