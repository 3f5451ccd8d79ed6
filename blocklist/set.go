package blocklist

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Set is rules, compiled once. It is immutable and safe for concurrent use; a nil set
// has no rules.
type Set struct {
	enforce, dry tier
	slots        slots
	pool         sync.Pool // of *scratch
}

// A tier is rules that are looked at in one go, in the order in which they were given.
type tier struct {
	rules []*compiled
	index *index
}

// NewSet compiles rules. Those that are off are checked, and then left out. The error
// joins everything that is wrong in any of them; there is then no set at all, so that
// half a list is never enforced.
func NewSet(rules []Rule) (*Set, error) {
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("rules: must be at most %d, got %d", MaxRules, len(rules))
	}
	s := new(Set)
	var problems []error
	names := make(map[string]bool, len(rules))
	for _, r := range rules {
		c, err := compile(&r, &s.slots)
		if err != nil {
			problems = append(problems, err)
		}
		if names[r.Name] {
			problems = append(problems, fmt.Errorf("rule %q: there are two rules of this name", r.Name))
		}
		names[r.Name] = true
		switch r.Mode {
		case Enforce:
			s.enforce.rules = append(s.enforce.rules, c)
		case DryRun:
			s.dry.rules = append(s.dry.rules, c)
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	s.enforce.index = newIndex(s.enforce.rules)
	s.dry.index = newIndex(s.dry.rules)
	s.pool.New = func() any {
		return &scratch{
			slots:      make([]values, len(s.slots)),
			groups:     newBag(max(len(s.enforce.index.groups), len(s.dry.index.groups))),
			candidates: newBag(max(len(s.enforce.rules), len(s.dry.rules))),
		}
	}
	return s, nil
}

// Match returns the first enforcing rule, in the order they were given, that matches the
// request now. If there is none, it appends the dry-run rules that match to dry: they are
// looked at last, and tell what they would refuse beyond all that is refused already.
func (s *Set) Match(r *Request, now time.Time, dry []*Rule) (*Rule, []*Rule) {
	if s == nil || len(s.enforce.rules)+len(s.dry.rules) == 0 {
		return nil, dry
	}
	sc := s.pool.Get().(*scratch)
	hit := s.first(r, now, sc)
	if hit == nil && len(s.dry.rules) > 0 {
		dry = s.all(r, now, sc, dry)
	}
	if sc.reset() {
		s.pool.Put(sc)
	}
	return hit, dry
}

// first returns the first enforcing rule that matches.
func (s *Set) first(r *Request, now time.Time, sc *scratch) *Rule {
	if len(s.enforce.rules) == 0 {
		return nil
	}
	s.enforce.index.find(r, &s.slots, sc)
	best := int32(len(s.enforce.rules))
	for _, id := range sc.candidates.numbers {
		if id < best && s.enforce.rules[id].match(r, now, &s.slots, sc) {
			best = id
		}
	}
	sc.candidates.clear()
	if int(best) == len(s.enforce.rules) {
		return nil
	}
	return s.enforce.rules[best].rule
}

// all appends the dry-run rules that match.
func (s *Set) all(r *Request, now time.Time, sc *scratch, dry []*Rule) []*Rule {
	s.dry.index.find(r, &s.slots, sc)
	for _, id := range sc.candidates.numbers {
		if s.dry.rules[id].match(r, now, &s.slots, sc) {
			sc.hits = append(sc.hits, id)
		}
	}
	sc.candidates.clear()
	slices.Sort(sc.hits)
	for _, id := range sc.hits {
		dry = append(dry, s.dry.rules[id].rule)
	}
	return dry
}
