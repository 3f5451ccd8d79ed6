package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written is when the lists of these tests were written.
var written = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// TestParseGolden reads a list of each format and compares with what is said of it in
// testdata; the format is told from the list, except for names. UPDATE_GOLDEN=1 rewrites that.
func TestParseGolden(t *testing.T) {
	lists, err := filepath.Glob("testdata/*.list")
	if err != nil || len(lists) < 10 {
		t.Fatal(lists, err)
	}
	for _, path := range lists {
		word, _, _ := strings.Cut(filepath.Base(path), "-")
		t.Run(strings.TrimSuffix(filepath.Base(path), ".list"), func(t *testing.T) {
			want, err := ParseFormat(word)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			given := Auto
			if want == Agents {
				given = Agents
			}
			p, err := Parse(strings.NewReader(string(text)), given, Limits{At: written})
			if err != nil {
				t.Fatal(err)
			}
			if p.Format != want {
				t.Errorf("read as %s, want %s", p.Format, want)
			}
			compareGolden(t, strings.TrimSuffix(path, ".list")+".golden", describe(p))
		})
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant, by %s:\n%s", got, path, want)
	}
}

// describe writes a list down for people.
func describe(p Parsed) string {
	var b strings.Builder
	for _, prefix := range p.Prefixes {
		fmt.Fprint(&b, "block ", prefix)
		if until, ends := p.Until[prefix]; ends {
			fmt.Fprint(&b, " until ", until.Format(time.RFC3339Nano))
		}
		fmt.Fprintln(&b)
	}
	for _, prefix := range p.Allowed {
		fmt.Fprintln(&b, "except", prefix)
	}
	for _, name := range p.Agents {
		fmt.Fprintf(&b, "agent %q\n", name)
	}
	for _, prefix := range p.Stripped {
		fmt.Fprintln(&b, "stripped", prefix)
	}
	for _, line := range p.Rejected {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintln(&b, "rejected", p.RejectedCount)
	return b.String()
}
