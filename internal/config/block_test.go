package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// blockFrom reads a block's JSON, as Caddy does.
func blockFrom(t testing.TB, text string) *Block {
	t.Helper()
	b := new(Block)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBlockValidate(t *testing.T) {
	tests := []struct {
		name, block string
		want        []string
	}{
		{"rules", `{"rules": [{"name": "x", "path": ["/a*"], "expires": "1d"}]}`, nil},
		{"ranges", `{"ranges": ["203.0.113.0/24"], "status": 404, "mode": "dry_run"}`, nil},
		{"everything", `{"everything": true, "name": "@scrapers", "mode": "off"}`, nil},
		{"nothing", `{"no_shared": true, "allow_ranges": ["10.0.0.0/8"]}`, []string{"refuses nothing: needs a rule, an address, a matcher or the shared list"}},
		{"everything and more", `{"everything": true, "ranges": ["203.0.113.1"]}`, []string{"everything: leaves nothing to ranges and rules"}},
		{"name of everything", `{"everything": true, "name": "a\u0000"}`, []string{`name must be printable, has '\x00'`}},
		{"unknown placeholder in the body", `{"everything": true, "body": "{http.request.remote_ip}"}`, []string{
			`body: unknown placeholder {http.request.remote_ip}: did you mean {http.request.remote.host} or {http.vars.client_ip}?`,
		}},
		{"mode", `{"everything": true, "mode": "log"}`, []string{`mode: must be enforce, dry_run or off, got "log"`}},
		{"status", `{"everything": true, "status": 200}`, []string{"status: must be between 400 and 599, got 200"}},
		{"ranges", `{"ranges": ["10.0.0.0/33", "x"], "allow_ranges": ["y"]}`, []string{
			`allow_ranges: "y": must be an address or a CIDR range`,
			`rule "ranges": client_ip: "10.0.0.0/33": must have a length from 0 to 32 after the slash`,
			`rule "ranges": client_ip: "x": must be an address or a CIDR range`,
		}},
		{"every address", `{"ranges": ["0.0.0.0/0", "::/0"]}`, []string{
			`rule "ranges": matches every request: name at least one field that does not`,
		}},
		{"mapped range, B37", `{"rules": [{"name": "x", "client_ip": ["::ffff:10.0.0.0/64"]}]}`, []string{
			`rule "x": client_ip: "::ffff:10.0.0.0/64": must have a length from 96 to 128: these are IPv4 addresses`,
		}},
		{"lone star, L134", `{"rules": [{"name": "x", "user_agent": ["*"], "header": {}}]}`, []string{
			`rule "x": matches every request: name at least one field that does not`,
		}},
		// B22: a list that came out empty means nothing, not anything.
		{"empty list", `{"rules": [{"name": "x", "path": ["/a"], "host": [], "header": {"X-A": []}}]}`, []string{
			`rule "x": host: must have a pattern`, `rule "x": header "X-A": must have a pattern`,
		}},
		{"expires", `{"rules": [{"name": "x", "path": ["/a"], "expires": "soon"}, {"name": "y", "path": ["/a"], "expires": "-1h"}]}`, []string{
			`rule "x": expires: must be a duration such as 30d, a time such as 2026-12-24T18:00:00Z, or never, got "soon"`,
			`rule "y": expires: must be positive, got -1h`,
		}},
		{"one header twice", `{"rules": [{"name": "x", "header": {"X-A": ["1"], "x-a": ["2"]}}]}`, []string{`rule "x": header "x-a": is given twice`}},
		{"one name twice", `{"rules": [{"name": "x", "path": ["/a"]}, {"name": "x", "path": ["/b"]}]}`, []string{`rule "x": there are two rules of this name`}},
		{"the name of the ranges", `{"ranges": ["203.0.113.1"], "rules": [{"name": "ranges", "path": ["/a"]}]}`, []string{
			`rule "ranges": there are two rules of this name`,
		}},
		{"action", `{"rules": [{"name": "x", "path": ["/a"], "action": 301}]}`, []string{`rule "x": action: must be a status from 400 to 599, abort, tarpit or mark, got 301`}},
		{"no name", `{"rules": [{"path": ["/a"]}]}`, []string{`rule "": name: must be 1 to 128 bytes of printable text`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, want := "", strings.Join(tt.want, "\n")
			if err := blockFrom(t, tt.block).Validate(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Rows L127, L134, B04, B25: what is allowed, and seldom meant, is said once at load.
func TestBlockLint(t *testing.T) {
	b := blockFrom(t, `{
		"ranges": ["203.0.113.0/24", "0.0.0.0/7", "128.0.0.0/1", "192.168.1.0/24", "::1"],
		"rules": [
			{"name": "x", "client_ip": ["2000::/18"], "path": ["/%61*", "/b"], "user_agent": ["*bot*", "*"]},
			{"name": "y", "client_ip": ["172.16.0.0/11"], "expires": "2026-11-30T12:00:00Z"},
			{"name": "z", "client_ip": ["198.51.100.0/24", "2001:db8::/32"], "path": ["/a%*"], "expires": "1h"}
		],
		"allow": [{}],
		"body": "{plugin.x}"
	}`)
	r := newReport()
	b.lint(r)
	b.lintExpiry(r, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	var got []string
	for _, w := range r.warnings {
		got = append(got, w.path+": "+w.message)
	}
	want := []string{
		`body: placeholder {plugin.x} is none of Caddy's own: it has no value unless a plugin or a map sets it`,
		`allow: an empty matcher set exempts every request from the rules`,
		`rule "ranges": client_ip: "0.0.0.0/7": refuses a large part of all addresses`,
		`rule "ranges": client_ip: "192.168.1.0/24": refuses private or loopback addresses, where health checks and proxies may be`,
		`rule "x": client_ip: "2000::/18": refuses a large part of all addresses`,
		`rule "x": user_agent: * matches anything, so the field has no effect`,
		`rule "x": path: "/%61*": is compared with the decoded path, where %20 is a blank`,
		`rule "y": client_ip: "172.16.0.0/11": refuses private or loopback addresses, where health checks and proxies may be`,
		`rule "y": expires: the rule has expired and has no effect`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestBlockNames(t *testing.T) {
	for text, want := range map[string]string{
		`{"everything": true, "mode": "off"}`:          "",
		`{"everything": true}`:                         "everything",
		`{"everything": true, "name": "@x"}`:           "@x",
		`{"ranges": ["::1"], "rules": [{"name":"x"}]}`: "ranges x",
		`{"ranges": ["::1"], "name": "office"}`:        "office",
	} {
		if got := strings.Join(blockFrom(t, text).Names(), " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// Patterns that fit no request are warned about: their rule would seem to be at work.
func TestLintUnlikelyPatterns(t *testing.T) {
	b := blockFrom(t, `{"rules": [
		{"name": "fine", "host": ["*.example.com", "[2001:db8::1]", "2001:db8::80"], "path": ["/a*", "*.php"]},
		{"name": "host", "host": ["https://example.com", "example.com/private", "example.com:8080"]},
		{"name": "path", "path": ["/search?q=*", "wp-login.php", "/a%20b"]}
	]}`)
	r := newReport()
	b.lint(r)
	var got []string
	for _, w := range r.warnings {
		got = append(got, w.path+": "+w.message)
	}
	const slash = "no host holds a slash: write the name alone, without scheme and path"
	want := []string{
		`rule "host": host: "https://example.com": ` + slash,
		`rule "host": host: "example.com/private": ` + slash,
		`rule "host": host: "example.com:8080": is compared with the name alone, without its port`,
		`rule "path": path: "/search?q=*": a ? stands for itself, and the path ends where the query begins: use query, or url for both`,
		`rule "path": path: "wp-login.php": no path begins so: paths begin with a slash`,
		`rule "path": path: "/a%20b": is compared with the decoded path, where %20 is a blank`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}
