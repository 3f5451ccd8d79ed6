package config

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

func TestHostName(t *testing.T) {
	for host, want := range map[string]string{
		"example.com":       "example.com",
		"example.com:8080":  "example.com",
		"example.com.":      "example.com",
		"example.com.:80":   "example.com",
		"[2001:db8::1]:443": "2001:db8::1",
		"[2001:db8::1]":     "2001:db8::1",
		"2001:db8::1":       "2001:db8::1",
		"[broken":           "[broken",
		":80":               "",
		"":                  "",
	} {
		if got := hostName(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}

func TestFilePath(t *testing.T) {
	for path, want := range map[string]string{
		"":             "/",
		"/":            "/",
		"/a/b":         "/a/b",
		"/a/":          "/a/",
		"//":           "/",
		"//a":          "/a",
		"/a//b//":      "/a/b/",
		"/./a":         "/a",
		"/a/.":         "/a",
		"/a/./":        "/a/",
		"/a/../b":      "/b",
		"/a/..":        "/",
		"/../../b":     "/b",
		"/.well-known": "/.well-known",
		"/a/..b/...":   "/a/..b/...",
		"/a/.b./c..":   "/a/.b./c..",
		"a":            "/a",
		"*":            "/*",
	} {
		if got := filePath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// What rules see is what the file server opens.
func FuzzFilePath(f *testing.F) {
	for _, seed := range []string{"/a/b", "//a/../b/", "/a/./", "/..", "a", "/a/...", "/a/.b/..c//"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := filePath(path)
		opened := caddyhttp.SanitizedPathJoin("/srv", path)
		if strings.Contains(path, "\x00") || opened == "/srv" && got != "/" {
			return // the file server refuses what is not a path
		}
		if want := strings.TrimPrefix(opened, "/srv"); strings.TrimPrefix(got, "/") != strings.TrimPrefix(want, "/") {
			t.Errorf("%q: rules see %q, the file server opens %q", path, got, opened)
		}
	})
}

func TestSentURL(t *testing.T) {
	for line, want := range map[string]string{
		"/a/%62?c=%64":               "/a/%62?c=%64",
		"/":                          "/",
		"*":                          "*",
		"http://example.com/a%2fb?c": "/a%2fb?c",
		"http://example.com?c":       "/?c",
		"http://example.com":         "/",
		"":                           "/b?c",
	} {
		u := &url.URL{Path: "/b", RawQuery: "c"}
		if line != "" {
			u, _ = url.Parse(line)
		}
		if got := sentURL(&http.Request{RequestURI: line, URL: u}); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestSource(t *testing.T) {
	tests := []struct {
		name, method string
		header       http.Header
		want         blocklist.Source
	}{
		{"plain", "GET", http.Header{}, blocklist.HTTP},
		{"upgrade", "GET", http.Header{"Upgrade": {"WebSocket"}}, blocklist.WebSocket},
		{"other upgrade", "GET", http.Header{"Upgrade": {"h2c"}}, blocklist.HTTP},
		{"extended CONNECT", "CONNECT", http.Header{":protocol": {"websocket"}}, blocklist.WebSocket},
		{"CONNECT", "CONNECT", http.Header{}, blocklist.HTTP},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{Method: tt.method, URL: new(url.URL), Header: tt.header}
			if got := requestOf(r, netip.Addr{}).Source; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
