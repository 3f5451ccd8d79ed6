package source

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fuzzFormat reads whatever comes as a list of a format: nothing panics, what comes out is
// bounded and normal, and what is printed and read again is the same.
func fuzzFormat(f *testing.F, format Format, seeds ...string) {
	lists, err := filepath.Glob("testdata/" + format.String() + "-*.list")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range lists {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limits := Limits{MaxEntries: 500, MaxBytes: 1 << 18, At: written}
		p, err := Parse(strings.NewReader(text), format, limits)
		if err != nil {
			if p.Len() > 0 {
				t.Errorf("an error, and %d entries", p.Len())
			}
			return
		}
		checkParsed(t, p)
		var again Parsed
		if again, err = Parse(strings.NewReader(text), format, limits); err != nil || describe(again) != describe(p) {
			t.Errorf("read once more: %s, %v\nwant %s", describe(again), err, describe(p))
		}
		printAndRead(t, p)
	})
}

// checkParsed checks what is true of every list.
func checkParsed(t *testing.T, p Parsed) {
	t.Helper()
	if p.Format == Auto || len(p.Prefixes) > 500+254+maxPieces || len(p.Agents) > 500 || len(p.Rejected) > MaxLines || p.RejectedCount < len(p.Rejected) {
		t.Errorf("%s: %d prefixes, %d agents, %d of %d lines", p.Format, len(p.Prefixes), len(p.Agents), len(p.Rejected), p.RejectedCount)
	}
	for _, prefix := range p.Prefixes {
		if prefix != plainPrefix(prefix) || prefix.Addr().Is4In6() || prefix.Bits() < minBits4 {
			t.Errorf("%s is not in its plain form", prefix)
		}
	}
	if entries := p.entries(); !slices.Equal(normalise(slices.Clone(entries)), entries) {
		t.Errorf("%v is not normal", p.Prefixes)
	}
	for prefix := range p.Until {
		if !slices.Contains(p.Prefixes, prefix) {
			t.Errorf("%s has an end and is not there", prefix)
		}
	}
	for _, line := range p.Rejected {
		if line.Number < 1 || line.Why == "" || len(line.Text) > maxText*3+3 || strings.ContainsAny(line.Text, "\x00\r\n\x1b") {
			t.Errorf("rejected: %+v", line)
		}
	}
}

// printAndRead writes the list down in the plainest way and reads that.
func printAndRead(t *testing.T, p Parsed) {
	t.Helper()
	text := []byte("#\n")
	for _, prefix := range p.Prefixes {
		text = append(append(text, prefix.String()...), '\n')
	}
	again, err := Parse(strings.NewReader(string(text)), Plain, Limits{})
	if want := ranges(p.Prefixes); err != nil || !slices.Equal(again.Prefixes, want) || again.RejectedCount != 0 {
		t.Errorf("got %v, %v\nwant %v", again, err, want)
	}
	if len(p.Agents) == 0 {
		return
	}
	if text, err = json.Marshal(p.Agents); err != nil {
		t.Fatal(err)
	}
	if again, err = Parse(strings.NewReader(string(text)), Robots, Limits{}); err != nil || !slices.Equal(again.Agents, p.Agents) {
		t.Errorf("got %q, %v\nwant %q", again.Agents, err, p.Agents)
	}
}

func FuzzPlain(f *testing.F) {
	fuzzFormat(f, Plain, "1.2.3.4-1.2.3.9", "::-::1", "0.0.0.0-255.255.255.254", "::ffff:0:0/96", "64:ff9b::/95", "\xef\xbb\xbf1.1.1.1\r", "\x1f\x8b")
}

func FuzzDrop(f *testing.F) {
	fuzzFormat(f, Drop, `{"cidr":"::/19"}`, `{"CIDR":1}`, `{"type":"metadata"}`)
}

func FuzzIPSet(f *testing.F) {
	fuzzFormat(f, IPSet, "create a hash:ip netmask 0\nadd a 1.2.3.4", "add a 10.0.0.0/8\nadd a 10.1.0.0-10.1.3.7 nomatch\n", `add a 1.1.1.1 comment "`)
}

func FuzzNginx(f *testing.F) {
	fuzzFormat(f, Nginx, "allow 10.1.1.1; deny 10.0.0.0/8;", "deny\n;", "allow all;deny 1.1.1.1;", "deny ::/0; ;;;")
}

func FuzzCrowdSec(f *testing.F) {
	fuzzFormat(f, CrowdSec, `{"new":[{"value":"1.1.1.1","duration":"9999999h"}],"deleted":[{}]}`, `[null,{"decisions":[null]}]`, `{"new":[{"value":"1.1.1.1","until":"9999-12-31T23:59:59Z"}]}`)
}

func FuzzCrowdSecCSV(f *testing.F) {
	fuzzFormat(f, CrowdSecCSV, "value\nIp:::1", "\"value\",until\n1.1.1.1,2026-12-01T00:00:00Z")
}

func FuzzRanges(f *testing.F) {
	fuzzFormat(f, Ranges, `{"cidr":{"ip":["1.1.1.1",[2]]}}`, `"1.1.1.1"`, `[[["1.1.1.1"]]]`)
}

func FuzzTor(f *testing.F) { fuzzFormat(f, Tor) }

func FuzzAgents(f *testing.F) { fuzzFormat(f, Agents, "a\tb #c", "é", "\u00a0x", "#") }

func FuzzRobots(f *testing.F) { fuzzFormat(f, Robots, `{"a b":{}}`, `["a #b"]`, `{"\u0000":{}}`) }

func FuzzAuto(f *testing.F) {
	fuzzFormat(f, Auto, "deny 1.1.1.1;", "create a hash:ip", "[", "ExitNode", "ip,value")
}
