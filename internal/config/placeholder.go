package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// A piece of a text is a literal, or a placeholder's name without its braces.
type piece struct {
	text        string
	placeholder bool
}

// splitText splits a text at its placeholders, by the rules of Caddy's replacer: \{ and
// \} stand for the brace itself. Braces that do not pair are an error; Caddy would
// pass them through.
func splitText(text string) ([]piece, error) {
	var pieces []piece
	var literal []byte
	flush := func() {
		if len(literal) > 0 {
			pieces = append(pieces, piece{text: string(literal)})
			literal = literal[:0]
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == '{' || text[i+1] == '}'):
			i++
			literal = append(literal, text[i])
		case c == '}':
			return nil, fmt.Errorf("closing brace without an opening one in %q (a brace itself is written \\})", text)
		case c == '{':
			n := strings.IndexAny(text[i+1:], "{}")
			if n < 0 || text[i+1+n] == '{' {
				return nil, fmt.Errorf("opening brace without a closing one in %q (a brace itself is written \\{)", text)
			}
			flush()
			pieces = append(pieces, piece{text: text[i+1 : i+1+n], placeholder: true})
			i += n + 1
		default:
			literal = append(literal, c)
		}
	}
	flush()
	return pieces, nil
}

// checkPlaceholders says what is wrong with a text's placeholders. unknown tells of
// braces that do not pair and of names that nothing can fill, for which Caddy would
// put nothing; warning tells of names that only a plugin or a map could fill, and of
// those that are still empty while a request is decided.
func checkPlaceholders(text string) (warning string, unknown error) {
	pieces, err := splitText(text)
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range pieces {
		if p.placeholder {
			names = append(names, p.text)
		}
	}
	return checkNames(names)
}

// inText finds placeholders among other words, with the backslash before those that are none.
var inText = regexp.MustCompile(`\\?\{[^\s{}"'\\]+\}`)

// checkText is checkPlaceholders for a text that clients read. There a brace is often meant
// itself, as in JSON: what does not look like a placeholder is none, as in Caddy's respond.
func checkText(text string) (warning string, unknown error) {
	var names []string
	for _, found := range inText.FindAllString(text, -1) {
		if found[0] == '{' {
			names = append(names, found[1:len(found)-1])
		}
	}
	return checkNames(names)
}

func checkNames(names []string) (warning string, unknown error) {
	var errs []error
	var warnings []string
	for _, name := range names {
		w, err := checkPlaceholder(name)
		errs = append(errs, err)
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return strings.Join(warnings, "; "), errors.Join(errs...)
}

func checkPlaceholder(name string) (warning string, unknown error) {
	if name == "" {
		return "", errors.New("placeholder {} has no name")
	}
	for _, f := range placeholderFamilies {
		rest, ok := strings.CutPrefix(name, f.prefix)
		if !ok {
			continue
		}
		if f.names != nil && !f.names(rest) {
			return "", unknownPlaceholder(name)
		}
		if f.late != "" {
			warning = fmt.Sprintf("placeholder {%s} is empty %s", name, f.late)
		}
		return warning, nil
	}
	if long := longForm(name); long != "" {
		return "", fmt.Errorf("placeholder {%s} is known in a Caddyfile only: write {%s}", name, long)
	}
	if _, ok := mistaken[name]; ok {
		return "", unknownPlaceholder(name)
	}
	warning = fmt.Sprintf("placeholder {%s} is none of Caddy's own: it has no value unless a plugin or a map sets it", name)
	if near := nearestPlaceholder(name); near != "" {
		warning += fmt.Sprintf("; did you mean {%s}?", near)
	}
	return warning, nil
}

// unknownPlaceholder is the error for a name that nothing fills, with the name that was
// probably meant.
func unknownPlaceholder(name string) error {
	if meant, ok := mistaken[name]; ok {
		return fmt.Errorf("unknown placeholder {%s}: did you mean %s?", name, meant)
	}
	if near := nearestPlaceholder(name); near != "" {
		return fmt.Errorf("unknown placeholder {%s}: did you mean {%s}?", name, near)
	}
	return fmt.Errorf("unknown placeholder {%s}", name)
}

// longForm returns what a Caddyfile's shorthand stands for, or nothing if the name is
// not one. JSON knows no shorthands.
func longForm(name string) string {
	token := caddyfile.Token{Text: "{" + name + "}"}
	segment := caddyfile.Segment{token}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&segment)
	if segment[0].Text == token.Text {
		return ""
	}
	return strings.Trim(segment[0].Text, "{}")
}

// nearestPlaceholder returns the known name that a few slips of the keyboard turn into
// the given one, or nothing if none is near.
func nearestPlaceholder(name string) string {
	best, least := "", max(2, len(name)/8)+1
	try := func(candidate string) {
		if d := editDistance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	for _, f := range placeholderFamilies {
		for _, n := range f.list {
			try(f.prefix + n)
		}
		// A family with free ends: {http.request.headers.X} for {http.request.header.X}.
		if f.list == nil {
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				try(f.prefix + name[i+1:])
			}
		}
	}
	return best
}

// editDistance is Levenshtein's: the least number of bytes to insert, delete or replace.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
