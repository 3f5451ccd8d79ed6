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
	refuse, mark, dry tier
	slots             slots
	pool              sync.Pool // of *scratch
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
	agents := 0
	for _, r := range rules {
		c, err := compile(&r, &s.slots)
		if err != nil {
			problems = append(problems, err)
		}
		if names[r.Name] {
			problems = append(problems, fmt.Errorf("rule %q: there are two rules of this name", r.Name))
		}
		names[r.Name] = true
		agents += len(c.agents)
		if t := s.tier(&r); t != nil {
			t.rules = append(t.rules, c)
		}
	}
	if agents > MaxAgents {
		problems = append(problems, fmt.Errorf("agent: must be at most %d names in all rules, got %d", MaxAgents, agents))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	groups, candidates := 0, 0
	for _, t := range []*tier{&s.refuse, &s.mark, &s.dry} {
		t.index = newIndex(t.rules, &s.slots)
		groups = max(groups, len(t.index.groups))
		candidates = max(candidates, len(t.rules))
	}
	s.pool.New = func() any {
		return &scratch{
			slots:      make([]values, len(s.slots)),
			groups:     newBag(groups),
			candidates: newBag(candidates),
		}
	}
	return s, nil
}

// tier returns where the rule belongs; nil if it is off.
func (s *Set) tier(r *Rule) *tier {
	switch {
	case r.Mode == DryRun:
		return &s.dry
	case r.Mode != Enforce:
		return nil
	case r.Action == Mark:
		return &s.mark
	}
	return &s.refuse
}

// Match returns the first enforcing rule, in the order they were given, that matches the
// request now. Those with the action Mark come after all that refuse. If nothing refuses,
// Match appends the dry-run rules that match to dry: they are looked at last, and tell
// what they would do beyond what is done already.
func (s *Set) Match(r *Request, now time.Time, dry []*Rule) (*Rule, []*Rule) {
	if s == nil || len(s.refuse.rules)+len(s.mark.rules)+len(s.dry.rules) == 0 {
		return nil, dry
	}
	sc := s.pool.Get().(*scratch)
	hit := s.first(&s.refuse, r, now, sc)
	if hit == nil {
		hit = s.first(&s.mark, r, now, sc)
		dry = s.all(&s.dry, r, now, sc, dry)
	}
	if sc.reset() {
		s.pool.Put(sc)
	}
	return hit, dry
}

// first returns the first rule of a tier that matches.
func (s *Set) first(t *tier, r *Request, now time.Time, sc *scratch) *Rule {
	if len(t.rules) == 0 {
		return nil
	}
	t.index.find(r, &s.slots, sc)
	best := int32(len(t.rules))
	for _, id := range sc.candidates.numbers {
		if id < best && t.rules[id].match(r, now, &s.slots, sc) {
			best = id
		}
	}
	sc.candidates.clear()
	if int(best) == len(t.rules) {
		return nil
	}
	return t.rules[best].rule
}

// all appends the rules of a tier that match.
func (s *Set) all(t *tier, r *Request, now time.Time, sc *scratch, dry []*Rule) []*Rule {
	if len(t.rules) == 0 {
		return dry
	}
	t.index.find(r, &s.slots, sc)
	for _, id := range sc.candidates.numbers {
		if t.rules[id].match(r, now, &s.slots, sc) {
			sc.hits = append(sc.hits, id)
		}
	}
	sc.candidates.clear()
	slices.Sort(sc.hits)
	for _, id := range sc.hits {
		dry = append(dry, t.rules[id].rule)
	}
	return dry
}
