package source

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func packed(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestParseText: how a text may be stored does not matter.
func TestParseText(t *testing.T) {
	want := prefixes("198.51.100.1/32 203.0.113.0/24")
	for name, text := range map[string]string{
		"plain":           "198.51.100.1\n203.0.113.0/24\n",
		"byte order mark": "\xef\xbb\xbf198.51.100.1\n203.0.113.0/24\n",
		"CRLF":            "198.51.100.1\r\n203.0.113.0/24\r\n",
		"no end of line":  "198.51.100.1\n203.0.113.0/24",
		"blanks":          "\n\n\t198.51.100.1 \t\n  203.0.113.0/24  \n\n",
		"comments":        "198.51.100.1#x\n203.0.113.0/24// y\n; z\n",
		"gzip":            packed(t, "198.51.100.1\n203.0.113.0/24\n"),
		"gzip in parts":   packed(t, "198.51.100.1\n203.0.") + packed(t, "113.0/24\n"),
		"gzip with mark":  packed(t, "\xef\xbb\xbf198.51.100.1\r\n203.0.113.0/24"),
		"JSON with mark":  "\xef\xbb\xbf[\"198.51.100.1\",\r\n\"203.0.113.0/24\"]",
		"long comments":   strings.Repeat("# "+strings.Repeat("x", 98)+"\n", 400) + "198.51.100.1\n203.0.113.0/24\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(strings.NewReader(text), Auto, Limits{})
			if err != nil || !slices.Equal(p.Prefixes, want) || p.RejectedCount != 0 {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
}

// TestParseErrors: what makes a whole list worthless (L128).
func TestParseErrors(t *testing.T) {
	zeros := packed(t, strings.Repeat("0", 1<<20))
	tests := []struct {
		name   string
		format Format
		text   string
		limits Limits
		want   string
	}{
		{"nothing", Auto, "", Limits{}, "is empty"},
		{"blanks", Plain, " \r\n\n", Limits{}, "is empty"},
		{"page", Auto, "<!DOCTYPE html>\n<html>", Limits{}, "is a web page, not a list"},
		{"page after blanks", Agents, "\n \xef\xbb\xbf<html>", Limits{}, `has more lines that make no sense as agents (1) than lines that do (0); the first is line 2: "?<html>": must be printable text`},
		{"XML", Drop, "<?xml version='1.0'?>", Limits{}, "is a web page, not a list"},
		{"packed page", Auto, packed(t, "<html>"), Limits{}, "is a web page, not a list"},
		{"UTF-16", Auto, "\xff\xfe1\x000\x00", Limits{}, "is no text in UTF-8"},
		{"binary", Plain, strings.Repeat("198.51.100.1\n", 2000) + "\x00", Limits{}, "is no text in UTF-8"},
		{
			"another format", Plain, "deny 198.51.100.1;\ndeny 198.51.100.2;\n198.51.100.3",
			Limits{},
			`has more lines that make no sense as plain (2) than lines that do (1); the first is line 1: "deny 198.51.100.1": must be an address or a CIDR range`,
		},
		{"too many", Plain, "198.51.100.1\n198.51.100.2\n198.51.100.3\n", Limits{MaxEntries: 2}, "has more than 2 entries"},
		{"too many names", Agents, "abc\ndef\nghi\n", Limits{MaxEntries: 2}, "has more than 2 entries"},
		{"too many deleted", CrowdSec, `{"deleted":[{"id":1},{"id":2}]}`, Limits{MaxEntries: 1}, "has more than 1 deleted entries"},
		{"too large", Plain, strings.Repeat("# comment\n", 100), Limits{MaxBytes: 500}, "is larger than 500 bytes"},
		{"bomb", Plain, zeros, Limits{MaxBytes: 100_000}, "is larger than 100000 bytes"},
		{"endless empty parts", Plain, strings.Repeat(packed(t, ""), 1000), Limits{MaxBytes: 1000}, "is larger than 1000 bytes"},
		{"half a gzip", Plain, packed(t, "198.51.100.1\n")[:20], Limits{}, "unexpected EOF"},
		{"gzip with a wrong head", Plain, "\x1f\x8bxxxxxxxxxxxx", Limits{}, "gzip: gzip: invalid header"},
		{"half a list", Ranges, "[\"198.51.100.1\",\n\"198.5", Limits{}, "line 2: ends too early: unexpected EOF"},
		{"half a stream", CrowdSec, "{\"new\":[\n{\"value\":\"198.51.100.1\"},", Limits{}, "line 2: ends too early: unexpected EOF"},
		{"half of the names", Robots, `{"GPTBot":{"operator":"x"},`, Limits{}, "line 1: ends too early: unexpected EOF"},
		{"no JSON", Ranges, "[\"198.51.100.1\",\nx]", Limits{}, "line 2: is no JSON: invalid character 'x' looking for beginning of value"},
		{"two documents", Ranges, "[\"198.51.100.1\"]\n[]", Limits{}, "line 2: has more after its end"},
		{"two streams", CrowdSec, `{"new":null} {"new":null}`, Limits{}, "line 1: has more after its end"},
		{"half of DROP", Drop, `{"cidr":"198.51.100.0/24"}` + "\n" + `{"type":"metadata","records":2}`, Limits{}, "line 2: promises 2 records, and there are 1"},
		{"deep", Ranges, strings.Repeat("[", 100_000), Limits{}, "line 1: has more than 64 levels"},
		{"deep and passed over", Robots, `{"a":` + strings.Repeat(`{"b":`, 100_000), Limits{}, "line 1: has more than 64 levels"},
		{"deep in a stream", CrowdSec, `{"a":` + strings.Repeat(`[`, 100_000), Limits{}, "line 1: has more than 64 levels"},
		{"a word for a stream", CrowdSec, `"forbidden"`, Limits{}, `must be a list of decisions, or an object with "new" and "deleted"`},
		{"a word for a list", CrowdSec, `{"new":"forbidden"}`, Limits{}, `line 1: "new" must be a list`},
		{"a word for names", Robots, `"forbidden"`, Limits{}, "must be an object with a key for each crawler"},
		{"numbers for names", Robots, `[1]`, Limits{}, "line 1: must be a list of names"},
		{"an error of an interface", Robots, `{"message":"forbidden"}`, Limits{}, `has more lines that make no sense as robots (1) than lines that do (0); the first is line 1: "message": must have an object after it`},
		{"no header", CrowdSecCSV, "24h,ip,198.51.100.1\n", Limits{}, "must begin with a line that names the columns, one of them value"},
		{"unknown format", Format(99), "198.51.100.1\n", Limits{}, "format: no format 99"},
		{
			"limits", Plain, "198.51.100.1\n",
			Limits{MaxEntries: -1, MaxBytes: -1, IPv6Prefix: 31},
			"max_entries: must be positive, got -1\nmax_bytes: must be positive, got -1\nipv6_prefix: must be from 32 to 128, got 31",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse(strings.NewReader(tt.text), tt.format, tt.limits)
			if err == nil || err.Error() != tt.want || p.Len() != 0 {
				t.Errorf("got %+v, %v\nwant %s", p, err, tt.want)
			}
		})
	}
}

// TestParseReadError: a text that breaks off is no list, in any format.
func TestParseReadError(t *testing.T) {
	broken := errors.New("connection reset")
	for f := Plain; int(f) < len(formats); f++ {
		text := strings.NewReader(map[Format]string{
			Drop: "{\"cidr\":\"198.51.100.0/24\"}\n", CrowdSec: `{"new":[`, Ranges: `[`, Robots: `{`, CrowdSecCSV: "value\n198.51.100.1\n",
		}[f] + "\n")
		if _, err := Parse(io.MultiReader(text, failing{broken}), f, Limits{}); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", f, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestParseEmpty: lists that say that there is nothing are lists.
func TestParseEmpty(t *testing.T) {
	for f, text := range map[Format]string{
		Plain: "# nothing yet\n", IPSet: "create a hash:ip\n", CrowdSec: `{"new":null,"deleted":null}`, Ranges: `{}`,
		CrowdSecCSV: "value\n", Robots: `{}`, Drop: `{"type":"metadata","records":0}`, Nginx: "# none", Agents: "#", Tor: "#",
	} {
		if p, err := Parse(strings.NewReader(text), f, Limits{}); err != nil || p.Len() != 0 || p.RejectedCount != 0 {
			t.Errorf("%s: got %+v, %v", f, p, err)
		}
	}
	if p, err := Parse(strings.NewReader("null\n"), CrowdSec, Limits{}); err != nil || p.Len() != 0 {
		t.Errorf("null: got %+v, %v", p, err)
	}
}

func TestParseLongLine(t *testing.T) {
	text := "198.51.100.1\n" + strings.Repeat("x", 3*maxLine) + "\n198.51.100.2\n"
	p, err := Parse(strings.NewReader(text), Plain, Limits{})
	want := []Line{{Number: 2, Text: strings.Repeat("x", maxText) + "...", Why: "is longer than 64 KiB"}}
	if err != nil || len(p.Prefixes) != 2 || !slices.Equal(p.Rejected, want) {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestRejectedAreBounded: all are counted, the first are kept, and none holds what would
// break a terminal or a log.
func TestRejectedAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "198.51.%d.%d\n\x1b[31m evil \x7f\u202e line\n", i/256, i%256)
	}
	p, err := Parse(strings.NewReader(b.String()), Plain, Limits{})
	if err != nil || p.RejectedCount != 500 || len(p.Rejected) != MaxLines {
		t.Fatalf("got %d of %d, %v", len(p.Rejected), p.RejectedCount, err)
	}
	want := `line 4: "?[31m evil ?? line": must be an address or a CIDR range`
	if got := p.Rejected[1].String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseBroad(t *testing.T) {
	p, err := Parse(strings.NewReader("64.0.0.0/3\n2001::/16\n0.0.0.0/0\n::/0\n64.0.0.0-127.255.255.255\n"), Plain, Limits{Broad: true})
	if want := prefixes("64.0.0.0/2 2001::/16"); err != nil || !slices.Equal(p.Prefixes, want) || p.RejectedCount != 2 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestIPv6Prefix: who has one address of a network has them all (B05).
func TestIPv6Prefix(t *testing.T) {
	text := "2001:db8:1:2::3\n2001:db8:1:2::4\n2001:db8:9::/48\n2001:db8:8::/80\n198.51.100.1\n"
	p, err := Parse(strings.NewReader(text), Plain, Limits{IPv6Prefix: 64})
	if want := prefixes("198.51.100.1/32 2001:db8:1:2::/64 2001:db8:8::/80 2001:db8:9::/48"); err != nil || !slices.Equal(p.Prefixes, want) {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestUntilOfOverlaps: of several ends the latest counts, also by a wider range.
func TestUntilOfOverlaps(t *testing.T) {
	text := `[{"value":"198.51.100.1","duration":"1h"},{"value":"198.51.100.1","duration":"3h","id":2},
		{"value":"198.51.100.0/24","duration":"2h"},{"value":"198.51.100.2","duration":"1h"},{"value":"198.51.100.3"},
		{"value":"198.51.100.4","duration":"1000000h"}]`
	p, err := Parse(strings.NewReader(text), CrowdSec, Limits{At: written})
	if err != nil {
		t.Fatal(err)
	}
	want := `block 198.51.100.0/24 until 2026-11-30T14:00:00Z
block 198.51.100.1/32 until 2026-11-30T15:00:00Z
block 198.51.100.3/32
block 198.51.100.4/32
rejected 0
`
	if got := describe(p); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if at := p.Until[p.Prefixes[0]]; at != written.Add(2*time.Hour) {
		t.Errorf("until %s", at)
	}
}

func TestDetect(t *testing.T) {
	tests := []struct {
		name, text, contentType, file string
		want                          Format
	}{
		{"nothing", "", "", "", Plain},
		{"address", "198.51.100.1", "text/html", "x.csv", Plain},
		{"ipset with comments", "# saved\n\ncreate a hash:ip", "", "", IPSet},
		{"old ipset", "-N a iphash", "", "", IPSet},
		{"restored ipset", "-exist create a hash:ip", "", "", IPSet},
		{"allow first", "allow 198.51.100.1;", "", "", Nginx},
		{"tor", "ExitNode 00", "", "", Tor},
		{"one column by its name", "value\n198.51.100.1", "", "decisions.csv", CrowdSecCSV},
		{"one column by its type", "ip\n198.51.100.1", "text/csv; charset=utf-8", "", CrowdSecCSV},
		{"two columns", "scope,value\n", "", "", CrowdSecCSV},
		{"addresses and counts", "198.51.100.1,17\n", "", "", Plain},
		{"stream with nothing", `{"deleted":null,"new":null}`, "", "", CrowdSec},
		{"one decision", `[{"duration":"4h","scope":"ip","type":"ban","value":"198.51.100.1"}]`, "", "", CrowdSec},
		{"drop with a mark", "\xef\xbb\xbf{\"cidr\":\"198.51.100.0/24\"}\n{", "", "", Drop},
		{"cidr of another document", "{\"regions\":[{\"cidr\":\"198.51.100.0/24\"}", "", "", Ranges},
		{"names", `{"GPTBot": {"operator": "x", "respect": "Yes"}}`, "", "", Robots},
		{"array", `["198.51.100.0/24"]`, "", "", Ranges},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Detect([]byte(tt.text), tt.contentType, tt.file); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestFormatWords(t *testing.T) {
	for f := range formats {
		got, err := ParseFormat(Format(f).String())
		if err != nil || got != Format(f) {
			t.Errorf("%s: got %s, %v", Format(f), got, err)
		}
		if f > 0 && readers[f] == nil {
			t.Errorf("%s has no reader", Format(f))
		}
	}
	var f Format
	if err := f.UnmarshalText([]byte("netset")); err == nil || !strings.Contains(err.Error(), `auto, plain, drop`) {
		t.Errorf("got %v", err)
	}
	if err := f.UnmarshalText(nil); err != nil || f != Auto {
		t.Errorf("got %s, %v", f, err)
	}
	if got := Format(200).String(); got != "unknown(200)" {
		t.Errorf("got %s", got)
	}
}
