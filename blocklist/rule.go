// Package blocklist decides whether a request is unwelcome.
//
// A [Rule] names what it looks at, field by field: all its fields must match, and any
// one of many rules refuses. A [Set] is rules that were compiled once and never change;
// a [List] holds the set of the day and swaps it under running requests.
//
// # Patterns
//
// In a pattern only `*` is special: it stands for any bytes, also for none and for
// slashes and line breaks, and a pattern must fit the whole value. A field that is not
// given matches anything, and so does a lone `*` (or several), even where the request
// has no such value. Any other pattern needs a value to match. A query is always there: without
// parameters it is empty, and the empty pattern means just that.
//
// Addresses are no patterns but addresses and CIDR ranges, see [ParsePrefix]. Agents are
// names, in any case, that stand in the user agent as whole words: GPTBot is in
// "Mozilla/5.0 (compatible; GPTBot/1.2)", and neither git nor hub is in "github".
// Thousands of them cost no more than one.
//
// The package knows nothing of Caddy: a web server, a worker of background jobs and a
// command-line tool ask it alike.
package blocklist

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a set takes, so that no list of rules can make requests slow.
const (
	// MaxRules is the most rules of one set.
	MaxRules = 250_000
	// MaxStars is the most stars in one pattern; adjacent ones count as one.
	MaxStars = 16
	// MaxPattern is the longest pattern, in bytes.
	MaxPattern = 1024
	// MaxName is the longest name of a rule, in bytes.
	MaxName = 128
)

// A Rule says which requests are unwelcome. It must not change once a [Set] was made
// of it.
type Rule struct {
	// Name tells the rule from the others of its set.
	Name string
	// Mode says what a match does. Default: Enforce.
	Mode Mode
	// Source restricts the rule to one source of load. Default: AnySource.
	Source Source
	// Fields must all match. A field that is not listed matches anything.
	Fields []Field
	// Expires is when the rule ends; zero for never.
	Expires time.Time
	// Action is what becomes of the request. Default: a refusal with a status of the
	// caller's choice.
	Action Action
	// Dropped is what a worker does with a job that the rule matches. Default: it drops it.
	Dropped Dropped
	// Scope is which sites the rule is for, all or one; it has no zone. Default: all.
	Scope Scope
	// Author is who made the rule, and Created when; both may be absent.
	Author  string
	Created time.Time
	// Note is for people.
	Note string
}

// A Field is one thing that a rule looks at.
type Field struct {
	// Name is the field's word: host, url, path, query, method, client_ip,
	// user_agent, agent or header; of what is no plain request, message_type, user,
	// handler or args.
	Name string
	// Header is the name of the header, in any case; only for the field header.
	Header string
	// Patterns of which any one must match any one of the request's values; for the
	// field agent, names.
	Patterns []string
}

// Mode says what becomes of a request that a rule matches.
type Mode uint8

// The modes, strictest first.
const (
	Enforce Mode = iota // the rule's action is taken
	DryRun              // the match is reported and the request passes
	Off                 // the rule is kept, and not looked at
)

var modes = [...]string{Enforce: "enforce", DryRun: "dry_run", Off: "off"}

// String returns the mode's word.
func (m Mode) String() string { return wordOf(modes[:], int(m)) }

// ParseMode reads a mode's word.
func ParseMode(word string) (Mode, error) {
	n, err := parseWord(modes[:], word)
	return Mode(n), err
}

// Source is where load comes from.
type Source uint8

// The sources of load.
const (
	AnySource Source = iota // in a rule: all of them
	HTTP                    // plain requests
	WebSocket               // upgrades to a WebSocket
	Job                     // background jobs, before a worker runs them
)

var sources = [...]string{AnySource: "any", HTTP: "http", WebSocket: "websocket", Job: "job"}

// String returns the source's word.
func (s Source) String() string { return wordOf(sources[:], int(s)) }

// ParseSource reads a source's word.
func ParseSource(word string) (Source, error) {
	n, err := parseWord(sources[:], word)
	return Source(n), err
}

func wordOf(words []string, n int) string {
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprintf("unknown(%d)", n)
}

func parseWord(words []string, word string) (int, error) {
	for n, w := range words {
		if w == word {
			return n, nil
		}
	}
	last := len(words) - 1
	return 0, fmt.Errorf("must be %s or %s, got %q", strings.Join(words[:last], ", "), words[last], word)
}

// Expired reports whether the rule has ended.
func (r *Rule) Expired(now time.Time) bool {
	return !r.Expires.IsZero() && !now.Before(r.Expires)
}

// Check joins everything that is wrong with the rule into one error, each line with
// the rule's name and the field. A rule that would match every request is wrong.
func (r *Rule) Check() error {
	c, err := compile(r, newSlots())
	return errors.Join(err, c.checkNarrow())
}

// CheckLoose is Check without the last: the shared list may hold a rule that matches every
// request, if somebody insists on it, see [Guard].
func (r *Rule) CheckLoose() error {
	_, err := compile(r, newSlots())
	return err
}

// checkPlain checks what is not a field.
func (r *Rule) checkPlain() error {
	var problems []error
	if err := checkText(r.Name); err != nil || len(r.Name) > MaxName {
		problems = append(problems, fmt.Errorf("name: must be 1 to %d bytes of printable text", MaxName))
	}
	if err := checkText(r.Note); r.Note != "" && err != nil {
		problems = append(problems, fmt.Errorf("note: %w", err))
	}
	if int(r.Mode) >= len(modes) {
		problems = append(problems, fmt.Errorf("mode: no mode %d", r.Mode))
	}
	if int(r.Source) >= len(sources) {
		problems = append(problems, fmt.Errorf("source: no source %d", r.Source))
	}
	if err := r.Action.check(); err != nil {
		problems = append(problems, fmt.Errorf("action: %w", err))
	}
	if err := checkTime(r.Expires); err != nil {
		problems = append(problems, fmt.Errorf("expires: %w", err))
	}
	if err := checkTime(r.Created); err != nil {
		problems = append(problems, fmt.Errorf("created: %w", err))
	}
	if err := checkText(r.Author); r.Author != "" && err != nil {
		problems = append(problems, fmt.Errorf("author: %w", err))
	}
	if err := r.Dropped.check(); err != nil {
		problems = append(problems, fmt.Errorf("dropped: %w", err))
	}
	if err := r.Scope.check(); err != nil {
		problems = append(problems, fmt.Errorf("scope: %w", err))
	} else if r.Scope.Kind == ScopeZone {
		problems = append(problems, errors.New("scope: a rule is for all or for a site: only bans are for a zone"))
	}
	return errors.Join(problems...)
}

// checkTime refuses a time that has no text form.
func checkTime(at time.Time) error {
	if year := at.UTC().Year(); !at.IsZero() && (year < 0 || year > 9999) {
		return fmt.Errorf("year %d is out of range", year)
	}
	return nil
}

// checkText refuses what would break a line of a log or a list.
func checkText(text string) error {
	if text == "" {
		return errors.New("must not be empty")
	}
	if !utf8.ValidString(text) || strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return errors.New("must be one line of printable text")
	}
	return nil
}

// printable replaces what checkText refuses, for strings.Map.
func printable(c rune) rune {
	if unicode.IsControl(c) {
		return utf8.RuneError
	}
	return c
}
