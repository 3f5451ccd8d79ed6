package blocklist

import (
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	fields := func(f ...Field) Rule { return Rule{Name: "x", Fields: f} }
	one := func(name string, patterns ...string) Rule { return fields(Field{Name: name, Patterns: patterns}) }
	tests := []struct {
		name string
		rule Rule
		want []string
	}{
		{"fine", one("path", "/a*"), nil},
		{"source alone", Rule{Name: "x", Source: WebSocket}, nil},
		{"all of IPv4", one("client_ip", "0.0.0.0/0"), nil},
		{"every address", one("client_ip", "0.0.0.0/0", "::/0"), []string{"matches every request: name at least one field that does not"}},
		{"nothing", fields(), []string{"matches every request: name at least one field that does not"}},
		// L134: a lone star would block everybody.
		{"star", one("user_agent", "*bot*", "*"), []string{"matches every request: name at least one field that does not"}},
		{"stars", one("path", "***"), []string{"matches every request: name at least one field that does not"}},
		{"unknown", one("referer", "x"), []string{`no field "referer": a rule may look at host, url, path, query, method, client_ip, user_agent, agent, header, message_type, user, handler, args`}},
		{"twice", fields(Field{Name: "path", Patterns: []string{"/a"}}, Field{Name: "path", Patterns: []string{"/b"}}), []string{"path: is given twice"}},
		{
			"header twice", fields(Field{Name: "header", Header: "x-a", Patterns: []string{"1"}}, Field{Name: "header", Header: "X-A", Patterns: []string{"2"}}),
			[]string{`header "X-A": is given twice`},
		},
		{"no pattern", one("path"), []string{"path: must have a pattern"}},
		{"no range", one("client_ip"), []string{"client_ip: must have a pattern"}},
		{"empty host", one("host", ""), []string{`host: "" can never match`}},
		{"host of the root", one("host", "."), []string{`host: "." can never match`}},
		{"brackets", one("host", "[]"), []string{`host: "[]" can never match`}},
		{"host with port", one("host", "example.com:80"), []string{`host: "example.com:80" is matched without its port`}},
		{"host in letters", one("host", "bücher.example"), []string{`host: "bücher.example" must be ASCII: a name in other letters is sent as xn--…`}},
		{"IPv6 host", one("host", "2001:db8::1"), nil},
		{"relative path", one("path", "a"), []string{`path: "a" must begin with / or *`}},
		{"path not clean", one("path", "/a//b"), []string{`path: "/a//b" can never match: paths are cleaned of //, /./ and /../`}},
		{"relative url", one("url", "http://x/"), []string{`url: "http://x/" must begin with / or *`}},
		{"query mark", one("query", "?a=*"), []string{`query: "?a=*" is matched without the question mark`}},
		{"header without name", one("header", "x"), []string{"header: must have a name"}},
		{
			"header Host", fields(Field{Name: "header", Header: "host", Patterns: []string{"x"}}),
			[]string{`header "Host": is not kept among the headers, use the field host`},
		},
		{"header with blank", fields(Field{Name: "header", Header: "X A", Patterns: []string{"x"}}), []string{`header "X A": is not the name of a header`}},
		{"path with name", fields(Field{Name: "path", Header: "X", Patterns: []string{"/"}}), []string{`path: has no header name, got "X"`}},
		{
			"all at once",
			Rule{
				Name: "x", Action: 302, Mode: 9, Source: 9, Note: "a\nb", Expires: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
				Fields: []Field{{Name: "client_ip", Patterns: []string{"a", "b"}}, {Name: "path", Patterns: []string{"a", strings.Repeat("*a", 17)}}},
			},
			[]string{
				"note: must be one line of printable text", "mode: no mode 9", "source: no source 9",
				"action: must be a status from 400 to 599, abort, tarpit or mark, got 302", "expires: year 10000 is out of range",
				`client_ip: "a": must be an address or a CIDR range`, `client_ip: "b": must be an address or a CIDR range`,
				`path: "a" must begin with / or *`, `path: "` + strings.Repeat("*a", 17) + `" must have at most 16 stars, got 17`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want string
			if tt.want != nil {
				want = `rule "x": ` + strings.Join(tt.want, "\nrule \"x\": ")
			}
			if got := message(tt.rule.Check()); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestCheckName(t *testing.T) {
	for name, fine := range map[string]bool{
		"x": true, "two words": true, "é": true, strings.Repeat("x", MaxName): true,
		"": false, "a\nb": false, "a\x00": false, "\xff": false, strings.Repeat("x", MaxName+1): false,
	} {
		r := Rule{Name: name, Source: Job}
		if err := r.Check(); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestExpired(t *testing.T) {
	end := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := Rule{Expires: end}
	for _, tt := range []struct {
		now  time.Time
		want bool
	}{{end.Add(-1), false}, {end, true}, {end.Add(1), true}} {
		if got := r.Expired(tt.now); got != tt.want {
			t.Errorf("at %s: got %v", tt.now, got)
		}
	}
	if (&Rule{}).Expired(end) {
		t.Error("a rule without end has expired")
	}
}
