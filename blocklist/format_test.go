package blocklist

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRuleText(t *testing.T) {
	r := Rule{
		Name: "wiki scrapers",
		Mode: DryRun,
		Fields: []Field{
			{Name: "path", Patterns: []string{"/wiki/*", "/a b"}},
			{Name: "query", Patterns: []string{""}},
			{Name: "header", Header: "X-Tool", Patterns: []string{"\"é\"\n"}},
		},
		Source:  HTTP,
		Expires: time.Date(2026, 12, 24, 18, 0, 0, 500, time.UTC),
		Action:  410,
		Note:    "until they answer",
	}
	want := `"wiki scrapers" path=/wiki/* path="/a b" query="" header:X-Tool="\"é\"\n" ` +
		`mode=dry_run source=http action=410 expires=2026-12-24T18:00:00.0000005Z note="until they answer"`
	if got := r.String(); got != want {
		t.Fatalf("written as\n%s\nwant\n%s", got, want)
	}
	back, err := ParseRule(want)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Errorf("read as %#v\nwant %#v", back, r)
	}
}

func TestParseRuleErrors(t *testing.T) {
	tests := []struct {
		name, line, want string
	}{
		{"empty", "", "rule \"\": name: must be 1 to 128 bytes of printable text"},
		{"no pair", "x path", `rule "x": must be pairs of word=value, got "path"`},
		{"blank before =", "x path =/a", `rule "x": must be pairs of word=value, got "path =/a"`},
		{"open quote", `x path="/a`, `rule "x": path: must end with a quote`},
		{"glued", `x path="/a"b`, `rule "x": path: must be followed by a blank, got "b"`},
		{"mode", "x path=/a mode=log", `rule "x": mode: must be enforce, dry_run or off, got "log"`},
		{"mode twice", "x path=/a mode=off mode=off", `rule "x": mode: is given twice`},
		{"source", "x path=/a source=smtp", `rule "x": source: must be any, http, websocket or job, got "smtp"`},
		{"action", "x path=/a action=none", `rule "x": action: must be a status from 400 to 599, abort, tarpit or mark, got "none"`},
		{"action range", "x path=/a action=200", `rule "x": action: must be a status from 400 to 599, abort, tarpit or mark, got 200`},
		{"expires", "x path=/a expires=1h", `rule "x": expires: must be a time as in RFC 3339, got "1h"`},
		{"field", "x pth=/a", `rule "x": no field "pth": a rule may look at host, url, path, query, method, client_ip, user_agent, agent, header, message_type, user, handler, args`},
		{"checked", "x client_ip=10.0.0.0/33", `rule "x": client_ip: "10.0.0.0/33": must have a length from 0 to 32 after the slash`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseRule(tt.line); message(err) != tt.want {
				t.Errorf("got  %q\nwant %q", message(err), tt.want)
			}
		})
	}
}

// FuzzRuleText holds both directions: what is read is written so that it is read
// The words of the command line for a rule that lasts hold in lines as well.
func TestNeverInLines(t *testing.T) {
	r, err := ParseRule("x path=/a expires=never")
	if err != nil || !r.Expires.Equal(Never) {
		t.Errorf("%s, %v", &r, err)
	}
}

// Editors of Windows write a byte order mark.
func TestByteOrderMark(t *testing.T) {
	c, err := ParseChange(strings.NewReader("\ufeffrule x path=/a\n"))
	if err != nil || len(c.Put) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

// alike, and what is valid survives being written.
func FuzzRuleText(f *testing.F) {
	f.Add("scrapers user_agent=*bot* path=/w/* mode=dry_run", "path", "", "/a", "note")
	f.Add(`"a b" header:x-a="\xff" query="" expires=2026-11-30T00:00:00+01:00`, "header", "X-Y", " ", "#")
	f.Add("#x client_ip=::1 source=job action=404", "client_ip", "", "10.0.0.0/8", "=")
	f.Add("x host=a action=tarpit", "path", "", "/", "abort")
	f.Add("x host=a url=*b method=GET", "query", "", "", "\"")
	f.Add("x host=a host=b path=/ host=c", "user_agent", "", "a\nb", "é")
	f.Add("x source=job handler=Mail* user=u args=a message_type=m dropped=retry:30s scope=site:example.com author=a created=2026-11-30T00:00:00Z", "args", "", "", "a b")
	f.Add("x path=* dropped=dead_letter scope=all expires=9999-12-31T00:00:00Z", "message_type", "", "*", "n")
	f.Fuzz(func(t *testing.T, line, field, headerName, pattern, name string) {
		if r, err := ParseRule(line); err == nil {
			sameAfterWriting(t, r)
		}
		made := Rule{
			Name:   name,
			Fields: []Field{{Name: field, Header: headerName, Patterns: []string{pattern, "*", pattern}}, {Name: "path", Patterns: []string{"/x"}}},
			Note:   name,
			Mode:   Off,
		}
		if made.Check() == nil {
			sameAfterWriting(t, made)
		}
	})
}

func sameAfterWriting(t *testing.T, r Rule) {
	t.Helper()
	back, err := ParseRule(r.String())
	if err != nil {
		t.Fatalf("%s: %v", &r, err)
	}
	if !reflect.DeepEqual(back, r) {
		t.Errorf("%s\nread as %#v\nwant    %#v", &r, back, r)
	}
}
