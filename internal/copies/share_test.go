package copies

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// header makes a header of names and values in turn.
func header(fields ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return h
}

func get(target string, fields ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header = header(fields...)
	return r
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func keyOf(r *http.Request) (string, bool) { return Key(r, r.URL) }

func TestKey(t *testing.T) {
	seen := map[string]string{}
	for _, target := range []string{
		"http://a.example/x", "https://a.example/x", "http://b.example/x", "http://a.example:8080/x", "http://a.example/X",
		"http://a.example/x/", "http://a.example/x?", "http://a.example/x?a=1", "http://a.example/x?a=2", "http://a.example/%78%2f", "http://a.example/x%2F",
	} {
		key, ok := keyOf(get(target))
		if !ok || seen[key] != "" {
			t.Errorf("%s: %q, which %q has too", target, key, seen[key])
		}
		seen[key] = target
	}
	if a, _ := keyOf(get("http://A.example/x")); seen[a] != "http://a.example/x" {
		t.Errorf("the case of the host counts: %q", a)
	}
	if _, ok := keyOf(get("http://a.example/?" + strings.Repeat("x", maxKey))); ok {
		t.Error("any length is kept")
	}
}

// TestKeyRewritten: neither are two addresses one that a rewrite sends to one script, nor those that two
// handlers strip of what sets them apart.
func TestKeyRewritten(t *testing.T) {
	seen := map[string]string{}
	for _, address := range [...][2]string{
		{"/x", "/x"}, {"/a/x", "/x"}, {"/b/x", "/x"}, {"/x", "/a/x"}, {"/1", "/index.php"}, {"/2", "/index.php"}, {"/1", "/index.php?p=1"},
	} {
		r := get(address[0])
		came := *r.URL
		r.URL = get(address[1]).URL
		key, ok := Key(r, &came)
		if !ok || seen[key] != "" {
			t.Errorf("%v: %q, which %q has too", address, key, seen[key])
		}
		seen[key] = strings.Join(address[:], " as ")
	}
}

// TestKeyOfSpaces: HTTP/2 lets a query have spaces in it, which make of one address no other one.
func TestKeyOfSpaces(t *testing.T) {
	u, err := url.ParseRequestURI("/x?a /y?a accept text/html")
	if err != nil {
		t.Fatal(err)
	}
	r := get("/x?a")
	r.URL = u
	whole, _ := Key(r, u)
	r.URL = get("/y?a").URL
	if rewritten, _ := Key(r, get("/x?a").URL); strings.HasPrefix(whole, rewritten) {
		t.Errorf("%q begins as %q", whole, rewritten)
	}
	if accepted, _ := KeyByAccept("http://example.com/x?a /y?a", header("Accept", "text/html")); strings.EqualFold(accepted, whole) {
		t.Errorf("an address can have %q", accepted)
	}
}

// TestKeyForwarded: a front says for what it was asked, and sites that are asked for a page by http send to that by
// https, at the same address for us.
func TestKeyForwarded(t *testing.T) {
	seen := map[string]string{}
	for _, fields := range [][]string{
		nil,
		{"X-Forwarded-Proto", "http"},
		{"X-Forwarded-Proto", "https"},
		{"X-Forwarded-Scheme", "http"},
		{"X-Forwarded-Scheme", "https"},
		{"X-Forwarded-Host", "b.example"},
		{"X-Forwarded-Port", "8443"},
		{"X-Forwarded-Prefix", "/b"},
		{"X-Forwarded-Ssl", "on"},
		{"X-Forwarded-Host", "https"},
		{"X-Forwarded-Host", "b.example", "X-Forwarded-Proto", "https"},
	} {
		key, ok := keyOf(get("http://a.example/x", fields...))
		if was, twice := seen[key]; !ok || twice {
			t.Errorf("%v: %q, which %q has too", fields, key, was)
		}
		seen[key] = strings.Join(fields, " ")
	}
	a, _ := keyOf(get("http://a.example/x", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https"))
	if b, _ := keyOf(get("http://a.example/x", "X-Forwarded-For", "192.0.2.2", "X-Forwarded-Proto", "https")); a != b {
		t.Errorf("two clients have two keys: %q, %q", a, b)
	}
}

// TestKeyByAccept: who accept different things have no key together, nor has one of them that of an
// address.
func TestKeyByAccept(t *testing.T) {
	const html, data = "text/html", "application/activity+json"
	seen := map[string]string{}
	for _, fields := range [][]string{nil, {"Accept", html}, {"Accept", data}, {"Accept", data, "Accept", html}, {"Accept", ""}} {
		key, ok := KeyByAccept("http://a.example/x", header(fields...))
		if was, twice := seen[key]; !ok || twice {
			t.Errorf("%v: %q, which %s has too", fields, key, was)
		}
		seen[key] = strings.Join(fields, " ")
	}
	a, _ := KeyByAccept("http://a.example/x", header("Accept", html, "User-Agent", "a"))
	if b, _ := KeyByAccept("http://a.example/x", header("Accept", html, "User-Agent", "b")); a != b {
		t.Errorf("two keys for the same: %q, %q", a, b)
	}
	if _, ok := KeyByAccept("http://a.example/x", header("Accept", strings.Repeat("x", maxKey))); ok {
		t.Error("any length is kept")
	}
}

func TestAnonymous(t *testing.T) {
	post := httptest.NewRequest(http.MethodPost, "/", nil)
	body := httptest.NewRequest(http.MethodGet, "/", strings.NewReader("x"))
	certified := get("https://a.example/")
	certified.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	head := httptest.NewRequest(http.MethodHead, "/", nil)
	for name, c := range map[string]struct {
		r    *http.Request
		want bool
	}{
		"get": {get("/"), true}, "head": {head, true}, "https": {get("https://a.example/"), true},
		"post": {post, false}, "a body": {body, false}, "a certificate": {certified, false},
		"authorization":      {get("/", "Authorization", "Basic x"), false},
		"cookie":             {get("/", "Cookie", "a=1"), false},
		"signature":          {get("/", "Signature", "keyId=x"), false},
		"upgrade":            {get("/", "Upgrade", "websocket"), false},
		"another method":     {get("/", "X-HTTP-Method-Override", "DELETE"), false},
		"method":             {get("/", "X-HTTP-Method", "DELETE"), false},
		"method, too":        {get("/", "X-Method-Override", "DELETE"), false},
		"another address":    {get("/", "X-Original-URL", "/admin"), false},
		"another host":       {get("/", "X-Host", "b.example"), false},
		"a fragment":         {get("/", "X-Requested-With", "XMLHttpRequest"), false},
		"proxy":              {get("/", "Proxy-Authorization", "Basic x"), false},
		"api key":            {get("/", "X-API-Key", "x"), false},
		"api key, short":     {get("/", "apikey", "x"), false},
		"api key, of Google": {get("/", "X-Goog-Api-Key", "x"), false},
		"within a word":      {get("/", "X-ClientSecret", "x"), false},
		"the same":           {get("/", "JSessionID", "x"), false},
		"password":           {get("/", "X-Password", "x"), false},
		"auth token":         {get("/", "X-Auth-Token", "x"), false},
		"GitLab":             {get("/", "PRIVATE-TOKEN", "x"), false},
		"a signed message":   {get("/", "Signature-Input", "sig1=()"), false},
		"Cloudflare":         {get("/", "Cf-Access-Jwt-Assertion", "x"), false},
		"oauth2-proxy":       {get("/", "X-Auth-Request-User", "x"), false},
		"Grafana's":          {get("/", "X-WEBAUTH-USER", "x"), false},
		"a load balancer's":  {get("/", "X-Amzn-Oidc-Data", "x"), false},
		"a proxy's user":     {get("/", "X-Forwarded-User", "x"), false},
		"a proxy's proof":    {get("/", "Client-Cert", ":x:"), false},
		"by CGI":             {get("/", "x_http_method_override", "DELETE"), false},
		"what others send":   {get("/", "Accept", "*/*", "User-Agent", "x", "Sec-Fetch-User", "?1", "If-None-Match", `"x"`), true},
		"what proxies add": {get("/", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "a.example", "X-Forwarded-Proto", "https",
			"X-Forwarded-Port", "443", "X-Forwarded-Server", "p", "X-Forwarded-Scheme", "https", "X-Real-Ip", "192.0.2.1", "Via", "1.1 p",
			"Cf-Ray", "x", "Cf-Connecting-Ip", "192.0.2.1", "Cdn-Loop", "c", "X-Amzn-Trace-Id", "x", "Traceparent", "x"), true},
	} {
		if got := Anonymous(c.r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestShared(t *testing.T) {
	for name, c := range map[string]struct {
		h    http.Header
		want bool
	}{
		"nothing":            {header(), true},
		"public":             {header("Cache-Control", "public, max-age=60", "Vary", "Accept-Encoding, accept"), true},
		"a cookie":           {header("Set-Cookie", "a=1"), false},
		"private":            {header("Cache-Control", "max-age=60, Private"), false},
		"private fields":     {header("Cache-Control", `private="x-a, x-b"`), false},
		"in a second line":   {header("Cache-Control", "max-age=60", "Cache-Control", "no-store"), false},
		"no-cache":           {header("Cache-Control", "no-cache"), false},
		"for other caches":   {header("CDN-Cache-Control", "no-store"), false},
		"pragma":             {header("Pragma", "no-cache"), false},
		"pragma and control": {header("Pragma", "no-cache", "Cache-Control", "max-age=1"), true},
		"vary by cookie":     {header("Vary", "Accept-Encoding, cookie, Authorization"), true}, // nobody anonymous has one
		"vary by agent":      {header("Vary", "Accept-Encoding, User-Agent"), false},
		"vary by all":        {header("Vary", "*"), false},
		"trailers":           {header("Trailer", "X-Sum"), false},
		"a part":             {header("Content-Range", "bytes 0-1/2"), false},
		"not quite":          {header("Cache-Control", "x-private, private-ish=1"), true},
	} {
		if got := Shared(c.h); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStale(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "max-age=60": true, "max-age=60, must-revalidate": false, "proxy-revalidate": false, "s-maxage=9": false,
	} {
		if got := Stale(header("Cache-Control", value)); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestFresh(t *testing.T) {
	at := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		h    http.Header
		want time.Duration
		told bool
	}{
		"nothing":       {header("Etag", `"x"`), 0, false},
		"max-age":       {header("Cache-Control", "public, max-age=60"), time.Minute, true},
		"for shared":    {header("Cache-Control", "max-age=60, s-maxage=5"), 5 * time.Second, true},
		"quoted":        {header("Cache-Control", `max-age="60"`), time.Minute, true},
		"older already": {header("Cache-Control", "max-age=60", "Age", "50"), 10 * time.Second, true},
		"over":          {header("Cache-Control", "max-age=60", "Age", "70"), -10 * time.Second, true},
		"nonsense":      {header("Cache-Control", "max-age=soon"), 0, true},
		"below zero":    {header("Cache-Control", "max-age=-1"), 0, true},
		"expires":       {header("Expires", at(time.Minute)), time.Minute, true},
		"by its date":   {header("Expires", at(time.Hour), "Date", at(59*time.Minute)), time.Minute, true},
		"expires 0":     {header("Expires", "0"), 0, true},
		"age wins":      {header("Expires", "0", "Cache-Control", "max-age=9"), 9 * time.Second, true},
	} {
		if got, told := Fresh(c.h, noon); got != c.want || told != c.told {
			t.Errorf("%s: %v %v", name, got, told)
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		accept, coding string
		want           bool
	}{
		{"", "", true},
		{"", "gzip", false},
		{"gzip", "gzip", true},
		{"GZip;q=1", "gzip", true},
		{"gzip;q=0", "gzip", false},
		{"br, gzip;q=0.5", "gzip", true},
		{"*", "zstd", true},
		{"*;q=0", "gzip", false},
		{"*, gzip;q=0", "gzip", false},
		{"gzip", "", true},
		{"identity;q=0", "", false},
		{"identity; q=0.0", "identity", false},
		{"gzip", "br", false},
	} {
		var values []string
		if c.accept != "" {
			values = []string{c.accept}
		}
		if got := accepts(values, c.coding); got != c.want {
			t.Errorf("%q, %q: %v", c.accept, c.coding, got)
		}
	}
}

func TestLasting(t *testing.T) {
	kept := lasting(header(
		"Content-Type", "text/html", "Etag", `"x"`, "Connection", "x-hop", "X-Hop", "1", "Date", "today", "Age", "7", "Server", "Caddy",
		"Transfer-Encoding", "chunked", "Content-Length", "5", "RateLimit", "r", "RateLimit-Policy", "p", "X-RateLimit-Limit", "1",
		"Retry-After", "5", "X-Own", "yes", "Cache-Control", "max-age=1", "Via", "1.1 p",
		"X-Request-ID", "1", "Cache-Status", "cdn; hit", "Server-Timing", "db;dur=5", "traceparent", "00-x", "X-B3-TraceId", "1", "CF-Ray", "1",
		"Set-Cookie", "a=1", "Authentication-Info", "x", "RateLimit-Remaining", "3", "X-Runtime", "0.1", "X-Cache", "HIT"))
	if len(kept) != 5 || kept.Get("Cache-Control") == "" || kept.Get("Via") == "" || kept.Get("Content-Type") == "" || kept.Get("Etag") == "" || kept.Get("X-Own") == "" {
		t.Errorf("%v", kept)
	}
}
