package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
)

func buildRanges(t *testing.T, text string) (*Ranges, error) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(new(caddy.Config))
	if err != nil {
		t.Fatal(err)
	}
	var s IPSource
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Build(ctx)
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
	}
	return r, err
}

// A list on the web is waited for the first time, found on disk later, and shared by all that name it; without
// one there are no ranges, and that is an error.
func TestIPSourceOnTheWeb(t *testing.T) {
	ownData(t)
	var down atomic.Bool
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if down.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		// Nothing is cut out: a proxy may well be in a private network.
		fmt.Fprint(w, `{"prefixes": [{"ipv4Prefix": "10.1.0.0/16"}, {"ipv6Prefix": "2001:db8::/32"}]}`)
	}))
	defer server.Close()
	text := `{"url": "` + server.URL + `/ranges.json", "refresh": "1h"}`
	want := fmt.Sprint([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")})

	down.Store(true)
	if _, err := buildRanges(t, `{"url": "`+server.URL+`/ranges.json", "timeout": "200ms"}`); err == nil || !strings.Contains(err.Error(), "there is no list yet") {
		t.Errorf("without a list: %v", err)
	}
	down.Store(false)
	// Who was turned away does not come back at once, so that the test asks as another list.
	text = strings.Replace(text, "ranges.json", "other.json", 1)
	first, err := buildRanges(t, text)
	if err != nil {
		t.Fatal(err)
	}
	second, err := buildRanges(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(first.Get()) != want || first.ranges != second.ranges {
		t.Errorf("ranges %v and %v", first.Get(), second.Get())
	}
	_, _ = first.Close(), second.Close()
	down.Store(true)
	before := asked.Load()
	again, err := buildRanges(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(again.Get()) != want || asked.Load() != before {
		t.Errorf("after a restart %v, and the server was asked", again.Get())
	}
	if fmt.Sprint(first.Get()) != want {
		t.Error("who still asks gets nothing any more")
	}
}

func TestIPSourceErrors(t *testing.T) {
	ownData(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "# none\n", "list": "192.0.2.0/24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		`{}`:                                               "must have a file or a url",
		`{"file": "/a", "url": "http://x/"}`:               "must have a file or a url",
		`{"file": "/a", "refresh": "1h"}`:                  "refresh, timeout and header are for a url",
		`{"file": "/a", "format": "robots"}`:               "format: must be one of addresses",
		`{"file": "/a", "format": "pdf"}`:                  "format: must be auto",
		`{"url": "ftp://x/"}`:                              "url 1: ",
		`{"file": "` + filepath.Join(dir, "none") + `"}`:   "no such file",
		`{"file": "` + filepath.Join(dir, "empty") + `"}`:  "",
		`{"file": "{env.WEIR_NO_SUCH_VARIABLE_AT_ALL}/x"}`: "WEIR_NO_SUCH_VARIABLE_AT_ALL",
	} {
		if _, err := buildRanges(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if r, err := buildRanges(t, `{"file": "`+filepath.Join(dir, "list")+`"}`); err != nil || len(r.Get()) != 1 {
		t.Errorf("a list: %v", err)
	}
}

// A module's ranges are a list like others: what is protected is cut out of them.
func TestListOfAModule(t *testing.T) {
	ownData(t)
	s := build(t, `{"block": {"protect": ["192.0.2.7"], "ip_sources": [{"name": "cdn", "source": {"source": "static", "ranges": ["192.0.2.0/24", "10.0.0.0/8"]}}]}}`)
	for client, refused := range map[string]bool{"192.0.2.8": true, "192.0.2.7": false, "10.1.2.3": false, "198.51.100.1": false} {
		q := &blocklist.Request{Source: blocklist.HTTP, Client: netip.MustParseAddr(client), Path: "/"}
		if d := s.List().Check(q, Now()); (d.Rule != nil && d.Rule.Name == "cdn") != refused {
			t.Errorf("%s: %+v", client, d)
		}
	}
	for text, want := range map[string]string{
		`{"name": "x"}`:                    `ip_source "x": source: must be a module`,
		`{"source": {"source": "static"}}`: `name: must be given`,
		`{"name": "x", "source": {"source": "static"}, "format": "plain"}`: `format: has no use`,
		`{"name": "x", "source": {"source": "static"}, "ipv6_prefix": 8}`:  `ipv6_prefix: must be between 32 and 128`,
	} {
		if err := appFrom(t, `{"block": {"ip_sources": [`+text+`]}}`).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
