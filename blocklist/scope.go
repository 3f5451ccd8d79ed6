package blocklist

import (
	"errors"
	"fmt"
	"strings"
)

// A Scope is what a rule or a ban reaches.
type Scope struct {
	// Kind of the scope. Default: ScopeAll.
	Kind ScopeKind
	// Name of the site or the zone; empty for ScopeAll. A site's name is a host in lower
	// case, without port.
	Name string
}

// ScopeKind says how far a scope reaches.
type ScopeKind uint8

// The kinds of scope, widest first.
const (
	ScopeAll  ScopeKind = iota // every site
	ScopeSite                  // the requests to one host
	ScopeZone                  // what one zone of rate_limit looks at; for bans only
)

var scopes = [...]string{ScopeAll: "all", ScopeSite: "site", ScopeZone: "zone"}

// String returns the kind's word.
func (k ScopeKind) String() string { return wordOf(scopes[:], int(k)) }

// maxScope is the longest name of a site or a zone, in bytes.
const maxScope = 256

// String returns all, site:NAME or zone:NAME.
func (s Scope) String() string {
	if s.Kind == ScopeAll && s.Name == "" {
		return s.Kind.String()
	}
	return s.Kind.String() + ":" + s.Name
}

// ParseScope reads what String writes, and checks it.
func ParseScope(text string) (Scope, error) {
	word, name, named := strings.Cut(text, ":")
	kind, err := parseWord(scopes[:], word)
	switch {
	case err != nil && strings.Contains(word, ".") && !named:
		return Scope{}, fmt.Errorf("must be all, site:NAME or zone:NAME, got %q: did you mean %q?", text, "site:"+text)
	case err != nil, kind != int(ScopeAll) && !named:
		return Scope{}, fmt.Errorf("must be all, site:NAME or zone:NAME, got %q", text)
	}
	s := Scope{ScopeKind(kind), name}
	if named && name == "" {
		return Scope{}, fmt.Errorf("%s: must have a name", word)
	}
	if s.Kind == ScopeSite {
		s.Name = site(name)
	}
	return s, s.check()
}

// site brings the name of a site to its one form.
func site(name string) string {
	text := []byte(strings.TrimSuffix(name, "."))
	lower(text)
	return string(text)
}

func (s Scope) check() error {
	switch {
	case int(s.Kind) >= len(scopes):
		return fmt.Errorf("no scope %d", s.Kind)
	case s.Kind == ScopeAll && s.Name != "":
		return fmt.Errorf("all: has no name, got %q", s.Name)
	case s.Kind == ScopeAll:
		return nil
	case s.Name == "":
		return fmt.Errorf("%s: must have a name", s.Kind)
	case len(s.Name) > maxScope:
		return fmt.Errorf("%s: must be at most %d bytes, got %d", s.Kind, maxScope, len(s.Name))
	case s.Kind == ScopeSite && s.Name != site(s.Name):
		return fmt.Errorf("site: must be in lower case, got %q", s.Name)
	case s.Kind == ScopeSite:
		if _, err := checkHost(s.Name); err != nil || strings.ContainsAny(s.Name, "*/ []") {
			return fmt.Errorf("site: must be a host without port, got %q", s.Name)
		}
	}
	if err := checkText(s.Name); err != nil {
		return fmt.Errorf("%s: %w", s.Kind, errors.New("must be one line of printable text"))
	}
	return nil
}
