package blocklist

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The text form of a rule is one line: its name, then word=value pairs. A pattern is
// given as field=pattern, a header's as header:Name=pattern, each as often as there are
// patterns. What is empty, or has blanks, quotes or other than ASCII in it, stands in
// double quotes, written as in Go.
//
//	scrapers user_agent=*scrapy* path=/wiki/* path=/w/* mode=dry_run note="until they answer"

// String returns the rule's text form, without what has its default.
func (r *Rule) String() string {
	b := appendValue(nil, r.Name, "=#")
	pair := func(word, value string) {
		b = append(append(append(b, ' '), word...), '=')
		b = appendValue(b, value, "")
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		word := f.Name
		if f.Header != "" {
			word += ":" + f.Header
		}
		for _, pattern := range f.Patterns {
			pair(word, pattern)
		}
	}
	if r.Mode != Enforce {
		pair("mode", r.Mode.String())
	}
	if r.Source != AnySource {
		pair("source", r.Source.String())
	}
	if r.Action != 0 {
		pair("action", r.Action.String())
	}
	if !r.Expires.IsZero() {
		pair("expires", formatTime(r.Expires))
	}
	if r.Dropped != (Dropped{}) {
		pair("dropped", r.Dropped.String())
	}
	if r.Scope != (Scope{}) {
		pair("scope", r.Scope.String())
	}
	if r.Author != "" {
		pair("author", r.Author)
	}
	if !r.Created.IsZero() {
		pair("created", formatTime(r.Created))
	}
	if r.Note != "" {
		pair("note", r.Note)
	}
	return string(b)
}

// appendValue appends a value, in quotes if it needs them or contains any of special.
func appendValue(b []byte, value, special string) []byte {
	bare := value != "" && !strings.ContainsAny(value, special)
	for i := 0; i < len(value) && bare; i++ {
		c := value[i]
		bare = '!' <= c && c <= '~' && c != '"' && c != '\\'
	}
	if bare {
		return append(b, value...)
	}
	return strconv.AppendQuote(b, value)
}

// ParseRule reads the text form of a rule and checks the rule, as [Rule.CheckLoose] does. Any
// valid rule that was written by [Rule.String] is read as it was, its times in UTC.
func ParseRule(line string) (Rule, error) { return ParseRuleEnding(line, parseEnd) }

// ParseRuleEnding is ParseRule for what people write: end reads the word expires, which may then count
// from now.
func ParseRuleEnding(line string, end func(text string) (time.Time, error)) (Rule, error) {
	var r Rule
	given := make(map[string]bool)
	var err error
	r.Name, err = parsePairs(line, func(word, value string) error {
		if word == "expires" {
			at, err := end(value)
			if err != nil {
				return err
			}
			value = formatTime(at)
		}
		return r.set(word, value, given)
	})
	switch {
	case err != nil && r.Name == "":
		return Rule{}, err
	case err != nil:
		return Rule{}, fmt.Errorf("rule %q: %w", r.Name, err)
	}
	return r, r.CheckLoose()
}

// parsePairs reads a line of a name and word=value pairs, and has each of them set. An error
// beyond the name begins with the word that it is about.
func parsePairs(line string, set func(word, value string) error) (name string, err error) {
	rest := strings.TrimLeft(line, " \t")
	quoted := strings.HasPrefix(rest, `"`)
	if name, rest, err = cutValue(rest); err != nil {
		return "", fmt.Errorf("name: %w", err)
	}
	if !quoted && strings.Contains(name, "=") {
		// A pair, most likely, and without it the others would match more than was meant.
		return "", fmt.Errorf("name: must come first, got %q (a name with an = stands in quotes)", name)
	}
	for rest = strings.TrimLeft(rest, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		word, tail, found := strings.Cut(rest, "=")
		if !found || strings.ContainsAny(word, " \t\"") {
			return name, fmt.Errorf("must be pairs of word=value, got %q", rest)
		}
		var value string
		if value, rest, err = cutValue(tail); err == nil {
			err = set(word, value)
		}
		if err != nil {
			return name, fmt.Errorf("%s: %w", word, err)
		}
	}
	return name, nil
}

func formatTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func parseTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time as in RFC 3339, got %q", text)
	}
	return at.UTC(), nil
}

// parseEnd reads when something ends. As on the command line, never is an end.
func parseEnd(text string) (time.Time, error) {
	if text == "never" {
		return Never, nil
	}
	return parseTime(text)
}

// set applies one pair. A word that no case knows is that of a field, which Check
// will judge.
func (r *Rule) set(word, value string, given map[string]bool) error {
	once := true
	var err error
	switch word {
	case "mode":
		r.Mode, err = ParseMode(value)
	case "source":
		r.Source, err = ParseSource(value)
	case "action":
		r.Action, err = ParseAction(value)
	case "expires":
		r.Expires, err = parseTime(value)
	case "dropped":
		r.Dropped, err = ParseDropped(value)
	case "scope":
		r.Scope, err = ParseScope(value)
	case "author":
		r.Author = value
	case "created":
		r.Created, err = parseTime(value)
	case "note":
		r.Note = value
	default:
		once = false
		r.addPattern(word, value)
	}
	if once && given[word] {
		return errors.New("is given twice")
	}
	given[word] = true
	return err
}

func (r *Rule) addPattern(word, pattern string) {
	name, headerName, _ := strings.Cut(word, ":")
	for i := range r.Fields {
		if f := &r.Fields[i]; f.Name == name && f.Header == headerName {
			f.Patterns = append(f.Patterns, pattern)
			return
		}
	}
	r.Fields = append(r.Fields, Field{Name: name, Header: headerName, Patterns: []string{pattern}})
}

// cutValue takes the value, bare or in quotes, that text begins with.
func cutValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " \t")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", errors.New("must end with a quote")
	}
	rest = text[len(quoted):]
	if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", "", fmt.Errorf("must be followed by a blank, got %q", rest)
	}
	value, err = strconv.Unquote(quoted)
	return value, rest, err
}
