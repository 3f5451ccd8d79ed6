package config

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestCheckPlaceholders(t *testing.T) {
	const warnOnly = ""
	for _, c := range []struct{ text, unknown, warning string }{
		{"plain text", "", ""},
		{`\{no\} placeholder`, "", ""},
		{"{http.vars.client_ip} {http.vars.anything.at-all}", "", ""},
		{"{http.request.header.X-Api-Key}{http.request.cookie.s}{http.request.uri.query.q}", "", ""},
		{"{http.request.tls.client.fingerprint} {http.request.tls.Version} {http.request.tls.client.san.emails.0}", "", ""},
		{"{http.request.host.labels.1} {http.request.uri.path.0} {http.request.orig_uri.path.2}", "", ""},
		{"{http.request.remote.host/24} {http.request.remote.host/24,64}", "", ""},
		{"{http.auth.user.id} {http.regexp.name.1} {http.url_pattern.pathname.id}", "", ""},
		{"{http.matchers.file.type} {env.HOME} {file./etc/key} {system.os} {time.now.unix}", "", ""},
		{"{http.rate_limit.exceeded.name} {http.block.rule} {http.shutting_down}", "", ""},

		{"{http.request.remote_ip}", "unknown placeholder {http.request.remote_ip}: did you mean {http.request.remote.host} or {http.vars.client_ip}?", ""},
		{"{remote_ip}", "unknown placeholder {remote_ip}: did you mean {http.request.remote.host} or {http.vars.client_ip}?", ""},
		{"{http.request.headers.X-Api-Key}", "did you mean {http.request.header.X-Api-Key}?", ""},
		{"{http.request.heder.X-Api-Key}", "did you mean {http.request.header.X-Api-Key}?", ""},
		{"{http.request.hosts}", "did you mean {http.request.host}?", ""},
		{"{http.request.uri.pth}", "did you mean {http.request.uri.path}?", ""},
		{"{http.request.path}", "did you mean {http.request.uri.path}?", ""},
		{"{http.request.nothing_like_it}", "unknown placeholder {http.request.nothing_like_it}", ""},
		{"{http.request.header.}", "unknown placeholder {http.request.header.}", ""},
		{"{http.request.uri.path.x}", "unknown placeholder {http.request.uri.path.x}", ""},
		{"{http.request.host.labels.-1}", "unknown placeholder {http.request.host.labels.-1}", ""},
		{"{http.request.tls.client.san.phones}", "unknown placeholder", ""},
		{"{http.request.remote.host/x}", "unknown placeholder", ""},
		{"{http.request.remote.host/33,64}", "unknown placeholder", ""},
		{"{http.rate_limit.exceeded.nam}", "did you mean {http.rate_limit.exceeded.name}?", ""},
		{"{http.error.code}", "unknown placeholder {http.error.code}", ""},
		{"{system.uptime}", "unknown placeholder {system.uptime}", ""},
		{"{time.now.unxi}", "did you mean {time.now.unix}?", ""},
		{"{client_ip}", "placeholder {client_ip} is known in a Caddyfile only: write {http.vars.client_ip}", ""},
		{"{header.X-Api-Key}", "write {http.request.header.X-Api-Key}", ""},
		{"{re.name.1}", "write {http.regexp.name.1}", ""},
		{"{}", "placeholder {} has no name", ""},
		{"{http.request.host", "opening brace without a closing one", ""},
		{"http.request.host}", "closing brace without an opening one", ""},
		{"{a{http.request.host}}", "opening brace without a closing one", ""},
		{"{http.request.a} and {http.request.b}", "{http.request.b}", ""},

		{"{magic_number}", warnOnly, "placeholder {magic_number} is none of Caddy's own"},
		{"{http.geo.country}", warnOnly, "placeholder {http.geo.country} is none of Caddy's own"},
		{"{htp.request.host}", warnOnly, "did you mean {http.request.host}?"},
		{"{http.reverse_proxy.status_code}", warnOnly, "is empty until a reverse_proxy"},
		{"{http.response.header.X}", warnOnly, "is empty until there is a response"},
		{"{http.error.status_code}", warnOnly, "is empty outside handle_errors routes"},
		{"{http.error}", warnOnly, "is empty outside handle_errors routes"},
	} {
		unknown := ""
		warning, err := checkPlaceholders(c.text)
		if err != nil {
			unknown = err.Error()
		}
		if !strings.Contains(unknown, c.unknown) || (c.unknown == "") != (unknown == "") {
			t.Errorf("%s: unknown %q, want %q", c.text, unknown, c.unknown)
		}
		if !strings.Contains(warning, c.warning) || (c.warning == "") != (warning == "") {
			t.Errorf("%s: warning %q, want %q", c.text, warning, c.warning)
		}
	}
}

// In a text for clients a brace may be one; Caddy puts in what it knows all the same.
func TestCheckText(t *testing.T) {
	r := request("http://example.com/")
	for _, c := range []struct{ text, sent, unknown, warning string }{
		{`{"error": "{http.request.method} refused"}`, `{"error": "GET refused"}`, "", ""},
		{`{"a": {"b": [{}]}} } {`, `{"a": {"b": [{}]}} } {`, "", ""},
		{`\{http.request.nothing\} {http.request.host}`, `{http.request.nothing} example.com`, "", ""},
		{`{"error": "{http.request.path}"}`, "", "unknown placeholder {http.request.path}", ""},
		{`<style>p{color:red}</style>{plugin.x}`, `<style>p{color:red}</style>{plugin.x}`, "", "{plugin.x}"},
	} {
		unknown := ""
		warning, err := checkText(c.text)
		if err != nil {
			unknown = err.Error()
		}
		if !strings.Contains(unknown, c.unknown) || (c.unknown == "") != (unknown == "") {
			t.Errorf("%s: unknown %q, want %q", c.text, unknown, c.unknown)
		}
		if !strings.Contains(warning, c.warning) || (c.warning == "") != (warning == "") {
			t.Errorf("%s: warning %q, want %q", c.text, warning, c.warning)
		}
		if got := replacer(r).ReplaceKnown(c.text, ""); unknown == "" && got != c.sent {
			t.Errorf("%s: Caddy sends %q, want %q", c.text, got, c.sent)
		}
	}
}

// Whatever a Caddyfile's shorthands stand for is known.
func TestShorthandsAreKnown(t *testing.T) {
	for _, short := range strings.Fields(`host hostport port orig_method orig_uri orig_path orig_dir orig_file
		orig_query orig_?query method uri %uri path %path dir file query %query ?query remote remote_host
		remote_port scheme uuid tls_cipher tls_version tls_client_fingerprint tls_client_issuer
		tls_client_serial tls_client_subject tls_client_certificate_pem tls_client_certificate_der_base64
		upstream_hostport client_ip header.A cookie.a labels.0 path.0 query.q re.1 vars.v rp.status_code
		resp.status_code err.message file_match.type`) {
		long := longForm(short)
		if long == "" {
			t.Errorf("{%s} is no shorthand", short)
		} else if _, err := checkPlaceholders("{" + long + "}"); err != nil {
			t.Errorf("{%s}: %v", short, err)
		}
	}
}

// Every name that is listed for requests is one that Caddy answers.
func TestListedPlaceholdersExist(t *testing.T) {
	r := httptest.NewRequest("GET", "http://example.com/a/b.html?x=1", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{Port: 80})))
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	checked := 0
	for _, f := range placeholderFamilies {
		request := strings.HasPrefix(f.prefix, "http.request.")
		if !request && f.prefix != "system." && f.prefix != "time." {
			continue
		}
		for _, end := range f.list {
			checked++
			if _, ok := replacer(r).Get(f.prefix + end); !ok {
				t.Errorf("Caddy does not know {%s%s}", f.prefix, end)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d names checked", checked)
	}
}
