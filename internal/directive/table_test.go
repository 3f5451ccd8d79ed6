package directive

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// read reads the block of a directive `test` by a table.
func read(block string, t Table) error {
	d := caddyfile.NewTestDispenser("test {\n" + block + "\n}")
	d.Next()
	return t.Read(d)
}

type target struct {
	text   string
	texts  []string
	count  int
	flag   bool
	span   caddy.Duration
	one    string
	part   float64
	ranges []string
	named  []string
}

func (v *target) table() Table {
	return Table{
		Text("text", "<string>", &v.text),
		Many(Texts("texts", "<string...>", &v.texts)),
		Count("count", "<n>", &v.count),
		Flag("flag", &v.flag),
		Duration("span", &v.span),
		OneOf("one", &v.one, "red", "green"),
		Fraction("part", &v.part),
		Args("ranges", "<address|cidr...>", 1, -1, func(args []string) error {
			return AppendRanges(&v.ranges, args)
		}),
		Named("named", Table{Flag("inner", new(bool))}, func(b *Body) error {
			inner := false
			if err := b.Read(Table{Flag("inner", &inner)}); err != nil {
				return err
			}
			if !inner {
				return b.At.Errorf("needs inner")
			}
			v.named = append(v.named, b.Args[0])
			return nil
		}),
	}
}

func TestRead(t *testing.T) {
	var v target
	err := read(`
		text "two words"
		texts a b
		texts c
		count 3
		flag
		span 1d
		one green
		part 0.5
		ranges 10.0.0.0/8 ::1
		named x {
			inner
		}
		named y {
			inner
		}`, v.table())
	if err != nil {
		t.Fatal(err)
	}
	if v.text != "two words" || !slices.Equal(v.texts, []string{"a", "b", "c"}) || v.count != 3 || !v.flag ||
		v.span != caddy.Duration(24*60*60*1e9) || v.one != "green" || v.part != 0.5 ||
		!slices.Equal(v.ranges, []string{"10.0.0.0/8", "::1"}) || !slices.Equal(v.named, []string{"x", "y"}) {
		t.Errorf("read %+v", v)
	}
}

// Fault row L65: what is misspelled or misplaced stops the load.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ name, block, want string }{
		{"unknown", "colour", `unknown word "colour" (known here: text, texts, count, flag, span, one, part, ranges, named), at Testfile:2`},
		{"slip", "cuont 3", `unknown word "cuont", did you mean "count"? (known here: text, `},
		{"misplaced", "inner", `unknown word "inner", it belongs in a named block (known here: `},
		{"twice", "flag\nflag", "flag: already set in line 2, at Testfile:3"},
		{"too few", "text", `text: got no argument, write "text <string>", at Testfile:2`},
		{"too many", "text a b", `text: got 2 arguments, write "text <string>", at Testfile:2`},
		{"empty", `text ""`, "text: must not be empty, at Testfile:2"},
		{"flag with argument", "flag on", `flag: got 1 argument, write "flag", at Testfile:2`},
		{"block", "count 3 {\nx\n}", "count: takes no block, at Testfile:2"},
		{"brace", "texts a }", "texts: a closing brace needs a line of its own, at Testfile:2"},
		{"no number", "count x", `count: must be a whole number, got "x", at Testfile:2`},
		{"zero", "count 0", "count: must be at least 1, got 0, at Testfile:2"},
		{"huge", "count 9223372036854775808", "count: out of range, got 9223372036854775808, at Testfile:2"},
		{"inexact", "count 9007199254740993", "count: out of range, got 9007199254740993, at Testfile:2"},
		{"eternity", "span 9223372036854775807ns", "span: out of range, got 9223372036854775807ns, at Testfile:2"},
		{"duration", "span 5", `span: must be a duration such as 500ms, 30s or 1d, got "5", at Testfile:2`},
		{"choice", "one gren", `one: unknown word "gren", did you mean "green"? (known here: red, green), at Testfile:2`},
		{"fraction", "part NaN", `part: must be a number such as 0.2, got "NaN", at Testfile:2`},
		{"range", "ranges 10.0.0.0/8 10.0.0.0.0", `ranges: must be an address or a CIDR range, got "10.0.0.0.0", at Testfile:2`},
		{"inner word", "named x {\ninnr\n}", `named "x": unknown word "innr", did you mean "inner"? (known here: inner), at Testfile:3`},
		{"inner meaning", "flag\nnamed x", `named "x": needs inner, at Testfile:3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := read(c.block, new(target).table())
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestErrorsAreWrapped(t *testing.T) {
	cause := errors.New("cause")
	err := read("x", Table{Args("x", "", 0, 0, func([]string) error { return cause })})
	if !errors.Is(err, cause) || err.Error() != "x: cause, at Testfile:2" {
		t.Errorf("got %v", err)
	}
}

func TestAgree(t *testing.T) {
	differs := func(a, b string) (string, bool) {
		if a == b {
			return "", false
		}
		return "text", strings.HasPrefix(a, "plain") && strings.HasPrefix(b, "plain")
	}
	for _, c := range []struct {
		name, first, second string
		want                string
	}{
		{"alike", "a", "a", ""},
		{"tolerated", "plain 1", "plain 2", ""},
		{"different", "a", "b", "text: not the same in f:1 and f:2; a zone has one definition: make them alike, or give one another name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := make(map[string]any)
			if err := Agree(state, "zone", "x", "f:1", c.first, differs); err != nil {
				t.Fatal(err)
			}
			if err := Agree(state, "zone", "other", "f:3", "anything", differs); err != nil {
				t.Errorf("another name: %v", err)
			}
			if err := Agree(state, "rule", "x", "f:4", "anything", differs); err != nil {
				t.Errorf("another kind: %v", err)
			}
			got := ""
			if err := Agree(state, "zone", "x", "f:2", c.second, differs); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
