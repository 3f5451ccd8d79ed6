package config

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/limiter"
)

var usual = prefixBits{32, 64}

// mustKey compiles a key that is expected to be sound and free of warnings.
func mustKey(t testing.TB, onEmpty string, parts ...string) *compiledKey {
	t.Helper()
	r := newReport()
	k := compileKey(r, parts, onEmpty, usual)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	for _, w := range r.warnings {
		t.Fatalf("warning: %s", w.message)
	}
	return k
}

// of returns a request's key and fate.
func (k *compiledKey) of(r *http.Request) (string, keyFate) {
	key, fate := k.appendTo(nil, r, ClientIP(r))
	return string(key), fate
}

// request is a served one with the given headers, name and value by turns.
func request(target string, headers ...string) *http.Request {
	r := served("GET", target, "192.0.2.7:4711")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestKey(t *testing.T) {
	const site = "http://Example.COM.:8080/a/b?user=ann&user=bob"
	for _, c := range []struct{ name, part, want string }{
		{"literal", "static", "static"},
		{"escaped braces", `\{static\}`, "{static}"},
		{"client", "{http.vars.client_ip}", "192.0.2.7"},
		{"peer", "{http.request.remote.host}", "192.0.2.7"},
		{"peer's network", "{http.request.remote.host/24,56}", "192.0.2.0/24"},
		{"host", "{http.request.host}", "example.com"},
		{"method", "{http.request.method}", "GET"},
		{"path", "{http.request.uri.path}", "/a/b"},
		{"header", "{http.request.header.x-api-key}", "k1"},
		{"header of several lines", "{http.request.header.X-Many}", "one,two"},
		{"query", "{http.request.uri.query.user}", "ann,bob"},
		{"cookie", "{http.request.cookie.session}", "s1"},
		{"variable", "{http.vars.plan}", "gold"},
		{"signed-in user", "{http.auth.user.id}", "ann"},
		{"number", "{http.vars.tenant}", "17"},
		{"mixture", "u-{http.auth.user.id}:{http.request.method}", "u-ann:GET"},
		{"half empty", "{http.request.header.X-None}/{http.request.method}", "/GET"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(site, "X-Api-Key", "k1", "X-Many", "one", "X-Many", "two", "Cookie", "a=b; session=s1")
			caddyhttp.SetVar(r.Context(), "plan", "gold")
			caddyhttp.SetVar(r.Context(), "tenant", 17)
			replacer(r).Set("http.auth.user.id", "ann")
			got, fate := mustKey(t, emptySkip, c.part).of(r)
			if got != c.want || fate != keyFound {
				t.Errorf("got %q, fate %d, want %q", got, fate, c.want)
			}
		})
	}
}

func replacer(r *http.Request) *caddy.Replacer {
	return r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
}

// Where Caddy's own value has one form only, the fast ways to it agree with it.
func TestKeyAgreesWithCaddy(t *testing.T) {
	r := request("http://example.com:81/a/b", "X-One", "1", "X-Two", "2", "X-Two", "3")
	for _, text := range []string{
		"{http.vars.client_ip}", "{http.request.remote.host}", "{http.request.remote.host/24,64}",
		"{http.request.host}", "{http.request.method}", "{http.request.uri.path}",
		"{http.request.header.X-One}", "{http.request.header.x-two}", "{http.request.header.X-None}",
		`a\{b\}c{http.request.method}d`,
	} {
		got, _ := mustKey(t, emptySkip, text).of(r)
		if want := replacer(r).ReplaceAll(text, ""); got != want {
			t.Errorf("%s: got %q, Caddy says %q", text, got, want)
		}
	}
}

// L79: parts are kept apart.
func TestKeyParts(t *testing.T) {
	k := mustKey(t, "", "{http.request.header.A}", "{http.request.header.B}", "end")
	key := func(a, b string) string {
		got, _ := k.of(request("/", "A", a, "B", b))
		return got
	}
	if key("a:b", "c") == key("a", "b:c") || key("ab", "") == key("a", "b") || key("", "x") == key("x", "") {
		t.Error("different parts make the same key")
	}
	long := strings.Repeat("a", 200)
	for _, parts := range [][2]string{{"a", "b"}, {"", "b"}, {long, "b"}, {"a", long}} {
		want := string(limiter.JoinKey(limiter.JoinKey(limiter.JoinKey(nil, parts[0]), parts[1]), "end"))
		if got := key(parts[0], parts[1]); got != want {
			t.Errorf("%q: got %q, want %q", parts, got, want)
		}
	}
}

func FuzzKeyParts(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("", "@", "@", "")
	f.Add("@192.0.2.7", "", "", "@@")
	f.Add(strings.Repeat("x", 256), "", strings.Repeat("x", 257), "")
	f.Add(strings.Repeat("y", 64), "b", "@"+strings.Repeat("y", 64), "b")
	one := mustKey(f, "", "{http.request.header.A}")
	two := mustKey(f, "", "{http.request.header.A}", "{http.request.header.B}")
	guest, _ := one.of(request("/"))
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 string) {
		first, second := request("/", "A", a1, "B", b1), request("/", "A", a2, "B", b2)
		k1, _ := two.of(first)
		k2, _ := two.of(second)
		if nothing := a1+b1 == "" || a2+b2 == ""; !nothing && (k1 == k2) != (a1 == a2 && b1 == b2) {
			t.Fatalf("two parts: %q %q and %q %q make %q and %q", a1, b1, a2, b2, k1, k2)
		}
		k1, _ = one.of(first)
		k2, _ = one.of(second)
		if (k1 == k2) != (a1 == a2) {
			t.Fatalf("one part: %q and %q make %q and %q", a1, a2, k1, k2)
		}
		// S1.6: nobody can send a key that is a guest's address.
		if (k1 == guest) != (a1 == "") {
			t.Fatalf("%q makes a guest's key", a1)
		}
	})
}

// S1.6: users by their API key, guests by their address, apart from each other.
func TestEmptyKey(t *testing.T) {
	const part = "{http.request.header.X-Api-Key}"
	guest, user := request("/"), request("/", "X-Api-Key", "192.0.2.7")
	for _, c := range []struct {
		onEmpty string
		want    string
		fate    keyFate
	}{
		{emptyClientIP, "@192.0.2.7", keyFound},
		{emptySkip, "", keySkip},
		{emptyReject, "", keyReject},
	} {
		k := mustKey(t, c.onEmpty, part)
		if got, fate := k.of(guest); got != c.want || fate != c.fate {
			t.Errorf("%q: guest got %q, fate %d", c.onEmpty, got, fate)
		}
		if got, fate := k.of(user); got != "192.0.2.7" || fate != keyFound {
			t.Errorf("%q: user got %q, fate %d", c.onEmpty, got, fate)
		}
	}
	k := mustKey(t, emptyClientIP, part)
	for _, forged := range []string{"@192.0.2.7", "@@192.0.2.7", "@"} {
		if got, _ := k.of(request("/", "X-Api-Key", forged)); got != "@"+forged {
			t.Errorf("key %q got %q", forged, got)
		}
	}
	if got, fate := mustKey(t, emptyReject, "static").of(guest); got != "static" || fate != keyFound {
		t.Errorf("literal: got %q, fate %d", got, fate)
	}
	if got, fate := mustKey(t, emptyReject).of(guest); got != "" || fate != keyFound {
		t.Errorf("no parts: got %q, fate %d: want one budget for all", got, fate)
	}
}

// Clients on unix sockets have no address; they share a budget rather than to escape.
func TestKeyWithoutAddress(t *testing.T) {
	r := served("GET", "/", "@")
	for _, c := range []struct {
		onEmpty, want string
		fate          keyFate
	}{
		{emptyClientIP, "@", keyFound}, {emptySkip, "", keySkip}, {emptyReject, "", keyReject},
	} {
		// The second is what Caddy says of a trusted socket whose headers name nobody.
		for _, word := range []string{"", unixPeer} {
			caddyhttp.SetVar(r.Context(), caddyhttp.ClientIPVarKey, word)
			for _, part := range []string{"{http.vars.client_ip}", "{http.request.remote.host}"} {
				if got, fate := mustKey(t, c.onEmpty, part).of(r); got != c.want || fate != c.fate {
					t.Errorf("%s of %s with %q: got %q, fate %d", c.onEmpty, part, word, got, fate)
				}
			}
		}
	}
}

// Before the handshake is complete the peer's address may be forged.
func TestKeyInEarlyData(t *testing.T) {
	r := request("/")
	r.TLS = &tls.ConnectionState{}
	k := mustKey(t, emptySkip, "{http.request.remote.host}")
	if got, fate := k.of(r); fate != keySkip {
		t.Errorf("early data: got %q, fate %d, want an empty key", got, fate)
	}
	r.TLS.HandshakeComplete = true
	if got, _ := k.of(r); got != "192.0.2.7" {
		t.Errorf("after the handshake: got %q", got)
	}
}

// L74, L77, B05: an address in a key is a network, in one form.
func TestKeyAddresses(t *testing.T) {
	k := mustKey(t, "", "{http.vars.client_ip}")
	for remote, want := range map[string]string{
		"[2001:db8:1:2::1]:80":         "2001:db8:1:2::/64",
		"[2001:DB8:1:2:ffff::9]:80":    "2001:db8:1:2::/64",
		"[2001:db8:1:3::1]:80":         "2001:db8:1:3::/64",
		"[::ffff:192.0.2.7]:80":        "192.0.2.7",
		"[64:ff9b::192.0.2.7]:80":      "192.0.2.7",
		"[2001:db8:1:2::1%25eth0]:80":  "2001:db8:1:2::/64",
		"[2001:db8:1:2::1.2.3.4]:4711": "2001:db8:1:2::/64",
	} {
		if got, _ := k.of(served("GET", "/", remote)); got != want {
			t.Errorf("%s: got %q, want %q", remote, got, want)
		}
	}
	// Caddy's own placeholder would make one key of all mapped addresses.
	cut := mustKey(t, "", "{http.request.remote.host/24,64}")
	if got, _ := cut.of(served("GET", "/", "[::ffff:192.0.2.7]:80")); got != "192.0.2.0/24" {
		t.Errorf("mapped: got %q", got)
	}
}

// L82: what the file server takes for one path has one budget.
func TestKeyPath(t *testing.T) {
	k := mustKey(t, "", "{http.request.uri.path}")
	before := mustKey(t, "", "{http.request.orig_uri.path}")
	for target, want := range map[string]string{
		"/a": "/a", "//a": "/a", "/a/": "/a", "/%61": "/a", "/A": "/a", "/./a": "/a", "/b/../a": "/a",
		"/a?x=1": "/a", "/b/%2e%2e/a": "/a", "/": "/", "//": "/", "/a;x": "/a;x", "/%2561": "/%61", "/É": "/é",
	} {
		r := served("GET", "http://h"+target, "192.0.2.7:1")
		if got, _ := k.of(r); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
		r.URL.Path = "/rewritten"
		if got, _ := before.of(r); got != want {
			t.Errorf("%s: before the rewrite: got %q, want %q", target, got, want)
		}
	}
}

// L83: a host has no port, case or root dot.
func TestKeyHost(t *testing.T) {
	k := mustKey(t, emptySkip, "{http.request.host}")
	for host, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com:443": "example.com", "example.com.": "example.com",
		"example.com.:80": "example.com", "[2001:DB8::1]:80": "2001:db8::1", "[2001:db8::1]": "2001:db8::1", "": "",
	} {
		r := request("/")
		r.Host = host
		if got, _ := k.of(r); got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}

// L80, B34: whatever a client sends, its key stays short, and its own.
func TestKeyIsBounded(t *testing.T) {
	k := mustKey(t, "", "{http.request.header.A}")
	key := func(value string) string {
		got, _ := k.of(request("/", "A", value))
		return got
	}
	megabyte := strings.Repeat("a", 1<<20)
	seen := make(map[string]string)
	for name, value := range map[string]string{
		"at the bound": megabyte[:maxValue], "one above": megabyte[:maxValue+1], "a megabyte": megabyte,
		"another megabyte": megabyte[1:] + "b", "NUL": "\x00", "two NULs": "\x00\x00", "no UTF-8": "\xff",
		"the hash itself": key(megabyte),
	} {
		got := key(value)
		if len(got) > maxValue+1 {
			t.Errorf("%s: key of %d bytes", name, len(got))
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[got] = name
		if again := key(value); again != got {
			t.Errorf("%s: two identities", name)
		}
	}
}

func TestKeyProblems(t *testing.T) {
	for _, c := range []struct{ part, problem, warning string }{
		{"{http.request.remote_ip}", "key: unknown placeholder {http.request.remote_ip}: did you mean", ""},
		{"{http.request.host", `key: opening brace without a closing one in "{http.request.host"`, ""},
		{"{http.request.remote.host/33,64}", "key: placeholder {http.request.remote.host/33,64}: prefix must be", ""},
		{"{http.request.remote}", "", "differs with every connection"},
		{"{http.request.uuid}", "", "the limit can never be reached"},
		{"{time.now.unix}", "", "the limit can never be reached"},
		{"{env.HOME}", "", "all share one budget"},
		{"{http.request.header.x-forwarded-for}", "", "is whatever the client sends"},
		{"{http.request.header.host}", "", "use {http.request.host}"},
		{"{http.rate_limit.exceeded.name}", "", "is set only once a request has been refused"},
		{"{http.response.status}", "", "is empty until there is a response"},
		{"{magic}", "", "unless a plugin or a map sets it"},
	} {
		r := newReport()
		compileKey(r.in("key"), []string{c.part}, "", usual)
		problem, warning := "", ""
		if err := r.err(); err != nil {
			problem = err.Error()
		}
		for _, w := range r.warnings {
			warning += w.message
		}
		if !strings.Contains(problem, c.problem) || (c.problem == "") != (problem == "") {
			t.Errorf("%s: problem %q, want %q", c.part, problem, c.problem)
		}
		if !strings.Contains(warning, c.warning) || (c.warning == "") != (warning == "") {
			t.Errorf("%s: warning %q, want %q", c.part, warning, c.warning)
		}
	}
}

func TestKeyAllocatesNothing(t *testing.T) {
	r := request("http://example.com:80/a/b", "X-Api-Key", "k1")
	client, buf := ClientIP(r), make([]byte, 0, 512)
	for _, parts := range [][]string{
		{"static"},
		{"{http.vars.client_ip}"},
		{"{http.request.remote.host}"},
		{"{http.request.host}"},
		{"{http.request.header.X-Api-Key}"},
		{"{http.request.header.X-None}"},
		{"{http.request.uri.path}"},
		{"{http.request.method}", "{http.vars.client_ip}"},
	} {
		k := mustKey(t, "", parts...)
		if n := testing.AllocsPerRun(100, func() { buf, _ = k.appendTo(buf[:0], r, client) }); n != 0 {
			t.Errorf("%s: %v allocations", parts, n)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	r := request("http://example.com:80/a/b", "X-Api-Key", "k1")
	buf := make([]byte, 0, 512)
	for name, part := range map[string]string{
		"client_ip": "{http.vars.client_ip}", "header": "{http.request.header.X-Api-Key}",
		"path": "{http.request.uri.path}", "replacer": "{http.vars.plan}",
	} {
		k := mustKey(b, "", part)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var client netip.Addr
			for b.Loop() {
				client = ClientIP(r)
				buf, _ = k.appendTo(buf[:0], r, client)
			}
		})
	}
}
