package observe

import (
	"strings"
	"testing"
)

// L80: what clients send is neither long in the log, nor does it steer what shows the log.
func TestShown(t *testing.T) {
	long := strings.Repeat("x", maxShown)
	for text, want := range map[string]string{
		"":                     "",
		"site.example":         "site.example",
		"日本 é":                 "日本 é",
		"two\r\nlines\x00":     "two\r\nlines\x00", // which encoders escape
		"\x7f\u009b31m\u202ea": "\ufffd\ufffd31m\ufffda",
		"\xff":                 "\ufffd",
		long:                   long,
		long + "y":             long + "…",
	} {
		if got := shown(text); got != want {
			t.Errorf("%.40q: got %.40q, want %.40q", text, got, want)
		}
	}
}

// L80: of a path the log holds a piece.
func TestShownIn(t *testing.T) {
	long := "/" + strings.Repeat("a", maxPath)
	if got, want := shownIn(maxPath, long), long[:maxPath]+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := shownIn(maxPath, "/a\u202eb"); got != "/a\ufffdb" {
		t.Errorf("got %q", got)
	}
}
