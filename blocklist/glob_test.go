package blocklist

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		name, pattern, text string
		want                bool
	}{
		{"equal", "/a", "/a", true},
		{"anchored at the start", "/a", "x/a", false},
		{"anchored at the end", "/a", "/ab", false},
		{"star for nothing", "/a*", "/a", true},
		{"star crosses slashes", "/x/*", "/x/y/z", true},
		{"star crosses line breaks, B40", "/admin*", "/admin\nx", true},
		{"star crosses any byte", "a*b", "a\x00\xff\xc3b", true},
		{"pieces do not overlap", "start*art", "start", false},
		{"first and last do not overlap", "aba*aba", "ababa", false},
		{"middle piece does not reach into the last", "*ab*b", "ab", false},
		{"last piece again later", "*.php", "x.php.php", true},
		{"middle pieces in order", "*b*a*", "ab", false},
		{"question mark is a letter", "a?c", "abc", false},
		{"brackets are letters", "[ab]", "a", false},
		{"braces are letters", "{a,b}", "{a,b}", true},
		{"backslash is a letter", `a\*`, `a\x`, true},
		{"empty pattern, empty text", "", "", true},
		{"empty pattern, some text", "", "x", false},
		{"adjacent stars are one", "a**b", "ab", true},
		{"text shorter than the pieces", "abc*def", "abcde", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := newGlob(tt.pattern, false)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.match([]byte(tt.text)); got != tt.want {
				t.Errorf("%q against %q: got %v, want %v", tt.pattern, tt.text, got, tt.want)
			}
		})
	}
}

func TestGlobFoldsASCIIOnly(t *testing.T) {
	g, err := newGlob("*BoT É*", true)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"x bot É": true, "x bot é": false} {
		if got := g.match([]byte(text)); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestGlobBounds(t *testing.T) {
	tests := []struct {
		pattern string
		want    string
	}{
		{strings.Repeat("a*", MaxStars), ""},
		{strings.Repeat("**", 400), ""}, // adjacent stars count as one
		{strings.Repeat("a*", MaxStars+1), "must have at most 16 stars, got 17"},
		{strings.Repeat("a", MaxPattern), ""},
		{strings.Repeat("a", MaxPattern+1), "must be at most 1024 bytes, got 1025"},
	}
	for _, tt := range tests {
		_, err := newGlob(tt.pattern, false)
		if got := message(err); got != tt.want {
			t.Errorf("%.20q…: got %q, want %q", tt.pattern, got, tt.want)
		}
	}
}

// Rows L134, B38: a pattern and a text that make a backtracking matcher take for ever.
func TestGlobIsLinear(t *testing.T) {
	g, err := newGlob(strings.Repeat("*aaaaaaab", MaxStars-2)+"*c*", false)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("aaaaaaab", 1<<17))
	start := time.Now()
	if g.match(text) {
		t.Fatal("matched")
	}
	// Linear is about a millisecond; trying again would multiply it with each star.
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

// plainGlob is the judge: the same pattern as a regular expression.
func plainGlob(pattern string, fold bool) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	flags := "(?s)"
	if fold {
		flags = "(?si)"
	}
	return regexp.MustCompile(flags + `\A` + strings.Join(parts, `.*`) + `\z`)
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"/x/*", "/x/y/z"},
		{"*ab*b", "ab"},
		{"start*art", "start"},
		{"", ""},
		{"a**b*", "ab"},
		{"/admin*", "/admin\nx"},
		{"*.php", "/a.php.php"},
		{"[a]?*", "[a]?"},
	} {
		f.Add(seed[0], seed[1], true)
	}
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		// A regular expression takes bytes that are not UTF-8 for another letter, and
		// folds more than ASCII.
		pattern, text = ascii(pattern), ascii(text)
		g, err := newGlob(pattern, fold)
		if err != nil {
			return
		}
		value := []byte(text)
		if fold {
			lower(value)
		}
		if got, want := g.match(value), plainGlob(pattern, fold).MatchString(text); got != want {
			t.Errorf("%q against %q, fold %v: got %v, want %v", pattern, text, fold, got, want)
		}
	})
}

func ascii(s string) string {
	return strings.Map(func(r rune) rune { return r & 0x7f }, s)
}

// message returns an error's text, empty for none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
