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
	// agent holds rules by agents alone, in the sets of a shared list, where they are looked at before
	// the other rules. Elsewhere they are among those in refuse.
	agent             tier
	refuse, mark, dry tier
	slots             slots
	pool              sync.Pool // of *scratch

	agents, agentBytes int // in all rules
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
		return nil, tooManyRules(len(rules))
	}
	s := &Set{slots: *newSlots()}
	var problems []error
	names := make(map[string]bool, len(rules))
	for _, r := range rules {
		c, err := compile(&r, &s.slots)
		if err = errors.Join(err, c.checkNarrow()); err != nil {
			problems = append(problems, err)
		}
		if names[r.Name] {
			problems = append(problems, fmt.Errorf("rule %q: there are two rules of this name", r.Name))
		}
		names[r.Name] = true
		s.add(c)
	}
	problems = append(problems, s.checkAgents())
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	s.index()
	return s, nil
}

// add puts a rule into its tier, unless it is off.
func (s *Set) add(c *compiled) {
	s.count(c)
	if t := s.tier(c.rule); t != nil {
		t.rules = append(t.rules, c)
	}
}

func (s *Set) count(c *compiled) {
	s.agents += len(c.agents)
	for _, name := range c.agents {
		s.agentBytes += len(name)
	}
}

// addApart is add, for the set of a shared list.
func (s *Set) addApart(c *compiled) {
	if c.rule.Mode == Enforce && c.rule.Action != Mark && c.agents != nil && len(c.conditions) == 0 && c.ranges == nil && c.site == nil {
		s.count(c)
		s.agent.rules = append(s.agent.rules, c)
		return
	}
	s.add(c)
}

// takeAgents takes over the automaton of agents from the set before, if the rules are the same: it is the
// dearest to build.
func (s *Set) takeAgents(before *Set) {
	if before == nil || !slices.EqualFunc(s.agent.rules, before.agent.rules, func(a, b *compiled) bool { return a.rule == b.rule }) {
		return
	}
	s.agent = before.agent
}

// checkAgents refuses more names than an automaton has room for.
func (s *Set) checkAgents() error {
	switch {
	case s.agents > MaxAgents:
		return fmt.Errorf("agent: must be at most %d names in all rules, got %d", MaxAgents, s.agents)
	case s.agentBytes > MaxAgentBytes:
		return fmt.Errorf("agent: the names in all rules must be at most %d bytes, got %d", MaxAgentBytes, s.agentBytes)
	}
	return nil
}

// index readies the set for requests once all rules are added.
func (s *Set) index() {
	groups, candidates := 0, 0
	for _, t := range []*tier{&s.agent, &s.refuse, &s.mark, &s.dry} {
		if t.index == nil {
			t.index = newIndex(t.rules, &s.slots)
		}
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
	hit := s.Hit(r, now)
	if hit == nil || hit.Action == Mark {
		dry = s.Dry(r, now, nil, dry)
	}
	return hit, dry
}

// Hit is Match without the dry-run rules.
func (s *Set) Hit(r *Request, now time.Time) *Rule {
	if s == nil || len(s.refuse.rules)+len(s.mark.rules) == 0 {
		return nil
	}
	sc := s.scratch()
	hit := s.first(&s.refuse, r, now, sc)
	if hit == nil {
		hit = s.first(&s.mark, r, now, sc)
	}
	s.free(sc)
	return hit
}

// Dry appends the dry-run rules that match, within a budget if that is not nil.
func (s *Set) Dry(r *Request, now time.Time, b *Budget, dry []*Rule) []*Rule {
	if s == nil || len(s.dry.rules) == 0 {
		return dry
	}
	sc := s.scratch()
	dry = s.all(&s.dry, r, now, sc, b, dry)
	s.free(sc)
	return dry
}

func (s *Set) scratch() *scratch { return s.pool.Get().(*scratch) }

func (s *Set) free(sc *scratch) {
	if sc.reset() {
		s.pool.Put(sc)
	}
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

// all appends the rules of a tier that match, as many as the budget allows.
func (s *Set) all(t *tier, r *Request, now time.Time, sc *scratch, b *Budget, dry []*Rule) []*Rule {
	t.index.find(r, &s.slots, sc)
	spent := b.begin()
	for _, id := range sc.candidates.numbers {
		c := t.rules[id]
		if b.stopped(c) {
			continue
		}
		if c.match(r, now, &s.slots, sc) {
			sc.hits = append(sc.hits, id)
		}
		if b.charge(c, &spent) {
			break
		}
	}
	sc.candidates.clear()
	slices.Sort(sc.hits)
	for _, id := range sc.hits {
		dry = append(dry, t.rules[id].rule)
	}
	sc.hits = sc.hits[:0]
	return dry
}
