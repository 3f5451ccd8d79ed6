package blocklist

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// A compiled rule. It matches if its source, all its conditions and its ranges do.
type compiled struct {
	rule       *Rule
	conditions []condition
	// ranges of the client's address; nil if it does not matter.
	ranges []netip.Prefix
	// agents are names, in lower case, of which the user agent must have one; nil if it
	// does not matter. The index sees to it.
	agents []string
	// within is ranges as a set, for a rule that is not found by address.
	within *Prefixes
	// site is the only host that the rule is for; nil if it is for all.
	site     []byte
	siteSlot int
	// sound is set unless something is wrong with the rule.
	sound bool
	// slow counts, for a rule in dry run, the times that it took too long.
	slow atomic.Int32
}

// A condition is one field of a rule that restricts it.
type condition struct {
	slot  int
	globs []*glob
}

// slots are the texts that the rules of a set look at, each of them once. The first is
// always the user agent, so that an automaton of agents fits any set.
type slots []look

func newSlots() *slots { return &slots{userAgent} }

// of returns the number of a look's slot.
func (s *slots) of(l look) int {
	for i, have := range *s {
		if have.name == l.name && have.header == l.header {
			return i
		}
	}
	*s = append(*s, l)
	return len(*s) - 1
}

// compile checks a rule and makes it ready to match. Every line of the error names
// the rule.
func compile(r *Rule, s *slots) (*compiled, error) {
	c := &compiled{rule: r}
	var problems []error
	note := func(err error) {
		for _, e := range lines(err) {
			problems = append(problems, fmt.Errorf("rule %q: %w", r.Name, e))
		}
	}
	note(r.checkPlain())
	given := make(map[string]bool, len(r.Fields))
	for i := range r.Fields {
		f := &r.Fields[i]
		l, err := lookFor(f)
		if err != nil {
			note(err)
			continue
		}
		if key := l.name + " " + l.header; given[key] {
			note(fmt.Errorf("%s: is given twice", f.label()))
		} else {
			given[key] = true
		}
		note(c.add(f, l, s))
	}
	if r.Scope.Kind == ScopeSite && len(problems) == 0 {
		c.site = []byte(r.Scope.Name)
		c.siteSlot = s.of(looks[0])
	}
	c.sound = len(problems) == 0
	slices.SortStableFunc(c.conditions, func(a, b condition) int { return cmp.Compare(len(a.globs), len(b.globs)) })
	return c, errors.Join(problems...)
}

// everything reports whether the rule matches every request of its sources and its site.
func (c *compiled) everything() bool {
	return c.sound && len(c.conditions) == 0 && c.ranges == nil && c.agents == nil
}

// checkNarrow refuses a rule that matches every request.
func (c *compiled) checkNarrow() error {
	if c.everything() && c.rule.Source == AnySource && c.site == nil {
		return fmt.Errorf("rule %q: matches every request: name at least one field that does not", c.rule.Name)
	}
	return nil
}

// add compiles one field into the rule.
func (c *compiled) add(f *Field, l look, s *slots) error {
	if len(f.Patterns) == 0 {
		return fmt.Errorf("%s: must have a pattern", f.label())
	}
	var err error
	switch l.kind {
	case address:
		c.ranges, err = parseRanges(f)
		return err
	case agent:
		s.of(userAgent)
		c.agents, err = parseAgents(f)
		return err
	}
	var globs []*glob
	var problems []error
	anything := false
	for _, pattern := range f.Patterns {
		g, err := l.compile(pattern)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %.100q %w", f.label(), pattern, err))
			continue
		}
		anything = anything || g.any()
		globs = append(globs, g)
	}
	if len(problems) == 0 && !anything {
		c.conditions = append(c.conditions, condition{s.of(l), globs})
	}
	return errors.Join(problems...)
}

// compile turns a pattern for this field into a glob.
func (l *look) compile(pattern string) (*glob, error) {
	if pattern != "" && l.check != nil {
		var err error
		if pattern, err = l.check(pattern); err != nil {
			return nil, err
		}
	}
	if pattern == "" && !l.empty {
		return nil, errors.New("can never match")
	}
	return newGlob(pattern, l.fold)
}

// parseRanges reads the ranges of an address field; nil if they cover every address.
func parseRanges(f *Field) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	var problems []error
	var anything, all4, all6 bool
	for _, entry := range f.Patterns {
		if entry == "*" {
			anything = true
			continue
		}
		prefix, err := ParsePrefix(entry)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", f.label(), err))
			continue
		}
		all4 = all4 || prefix.Bits() == 0 && prefix.Addr().Is4()
		all6 = all6 || prefix.Bits() == 0 && prefix.Addr().Is6()
		ranges = append(ranges, prefix)
	}
	if anything || all4 && all6 {
		ranges = nil
	}
	return ranges, errors.Join(problems...)
}

// match reports whether the rule matches a request for which the index named it as a
// candidate.
func (c *compiled) match(r *Request, now time.Time, s *slots, sc *scratch) bool {
	if c.rule.Source != AnySource && c.rule.Source != r.Source {
		return false
	}
	if c.site != nil && !slices.ContainsFunc(sc.values(r, s, c.siteSlot), func(host []byte) bool { return bytes.Equal(host, c.site) }) {
		return false
	}
	for i := range c.conditions {
		if !c.conditions[i].match(sc.values(r, s, c.conditions[i].slot)) {
			return false
		}
	}
	return (c.within == nil || c.within.Contains(r.Client)) && !c.rule.Expired(now)
}

// match reports whether any glob matches any value.
func (c *condition) match(values [][]byte) bool {
	for _, value := range values {
		for _, g := range c.globs {
			if g.match(value) {
				return true
			}
		}
	}
	return false
}

// lines takes joined errors apart.
func lines(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, lines(e)...)
	}
	return all
}
