package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Rule turns the rule into one of the block list. Durations count from now. What is wrong with a
// word is an error; what the rule matches is left to the list's own check.
func (u *Rule) Rule(now time.Time) (blocklist.Rule, error) {
	rule := blocklist.Rule{Name: u.Name, Action: u.Action, Note: u.Note, Author: u.Author}
	for _, f := range u.fields() {
		switch {
		case f.name == "query" && u.Query != nil:
			rule.Fields = append(rule.Fields, blocklist.Field{Name: f.name, Patterns: []string{*u.Query}})
		case f.name == "header":
			for _, name := range slices.Sorted(maps.Keys(u.Header)) {
				rule.Fields = append(rule.Fields, blocklist.Field{Name: f.name, Header: name, Patterns: u.Header[name]})
			}
		case f.patterns != nil && *f.patterns != nil:
			// A list that is there but empty is kept, and refused later: it means nothing
			// rather than anything.
			rule.Fields = append(rule.Fields, blocklist.Field{Name: f.name, Patterns: *f.patterns})
		}
	}
	return rule, u.words(&rule, now)
}

// A ruleField is what a rule calls a field of the block list, and where its patterns are; nil for the two that have
// another form.
type ruleField struct {
	name     string
	patterns *[]string
}

// fields are those that a rule may look at, in the order in which they are told.
func (u *Rule) fields() []ruleField {
	return []ruleField{
		{"client_ip", &u.ClientIP},
		{"method", &u.Method},
		{"host", &u.Host},
		{"path", &u.Path},
		{"url", &u.URL},
		{"query", nil},
		{"user_agent", &u.UserAgent},
		{"agent", &u.Agent},
		{"header", nil},
		{"message_type", &u.MessageType},
		{"user", &u.User},
		{"handler", &u.Handler},
		{"args", &u.Args},
	}
}

// words reads the options that are single words.
func (u *Rule) words(rule *blocklist.Rule, now time.Time) error {
	var problems []error
	read := func(name, text string, parse func() error) {
		if text == "" {
			return
		}
		if err := parse(); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
	}
	read("mode", u.Mode, func() (err error) {
		rule.Mode, err = blocklist.ParseMode(u.Mode)
		return err
	})
	if u.DryRun && u.Mode != "" && rule.Mode != blocklist.DryRun {
		problems = append(problems, fmt.Errorf("mode: is %s, and dry_run is given as well", u.Mode))
	}
	if u.DryRun {
		rule.Mode = blocklist.DryRun
	}
	read("source", u.Source, func() (err error) {
		rule.Source, err = blocklist.ParseSource(u.Source)
		return err
	})
	read("dropped", u.Dropped, func() (err error) {
		rule.Dropped, err = blocklist.ParseDropped(u.Dropped)
		return err
	})
	read("scope", u.Scope, func() (err error) {
		rule.Scope, err = blocklist.ParseScope(u.Scope)
		return err
	})
	read("created", u.Created, func() (err error) {
		if rule.Created, err = time.Parse(time.RFC3339, u.Created); err != nil {
			err = fmt.Errorf("must be a time such as 2026-12-24T18:00:00Z, got %q", u.Created)
		}
		return err
	})
	read("expires", u.Expires, func() (err error) {
		rule.Expires, err = ParseEnd(u.Expires, now)
		return err
	})
	return errors.Join(problems...)
}

// RuleOf is the inverse of [Rule.Rule].
func RuleOf(r *blocklist.Rule) Rule {
	u := Rule{Name: r.Name, Action: r.Action, Note: r.Note, Author: r.Author}
	fields := u.fields()
	for _, f := range r.Fields {
		switch f.Name {
		case "query":
			u.Query = &f.Patterns[0]
		case "header":
			if u.Header == nil {
				u.Header = make(map[string][]string)
			}
			u.Header[f.Header] = f.Patterns
		default:
			for _, known := range fields {
				if known.name == f.Name {
					*known.patterns = f.Patterns
				}
			}
		}
	}
	if r.Mode != blocklist.Enforce {
		u.Mode = r.Mode.String()
	}
	if r.Source != blocklist.AnySource {
		u.Source = r.Source.String()
	}
	if r.Dropped != (blocklist.Dropped{}) {
		u.Dropped = r.Dropped.String()
	}
	if r.Scope != (blocklist.Scope{}) {
		u.Scope = r.Scope.String()
	}
	if !r.Created.IsZero() {
		u.Created = r.Created.UTC().Format(time.RFC3339Nano)
	}
	switch {
	case !r.Expires.Before(blocklist.Never):
		u.Expires = noEnd
	case !r.Expires.IsZero():
		u.Expires = r.Expires.UTC().Format(time.RFC3339Nano)
	}
	return u
}

// noEnd is the end of a rule that has none, where another is usual.
const noEnd = "never"

// ParseEnd reads the end of a rule or a ban: a time, a duration from now, or never; zero if there is none.
func ParseEnd(text string, now time.Time) (time.Time, error) {
	switch text {
	case "":
		return time.Time{}, nil
	case noEnd:
		return blocklist.Never, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a duration such as 30d, a time such as 2026-12-24T18:00:00Z, or never, got %q", text)
	}
	if d <= 0 {
		return time.Time{}, fmt.Errorf("must be positive, got %s", text)
	}
	return now.Add(d), nil
}
