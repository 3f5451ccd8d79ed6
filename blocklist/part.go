package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A Part is the compiled rules of one origin: those that were made at run time, or of one list
// that somebody else keeps. It is immutable and safe for concurrent use; a nil part has no
// rules. Unlike in a [Set], rules by address alone come first, then those by agents
// alone, then the others in their order.
type Part struct {
	// Name of the origin.
	Name string

	refuse, dry addresses // rules by address alone
	set         *Set      // the others

	// rules is all of them, with the ranges of those by address alone; others counts the rest.
	rules  map[*Rule][]netip.Prefix
	others int
	n      int // rules, or entries of a list
}

// NewPart compiles rules. before, which may be nil, is what the part was like until now: what
// stayed the same is taken from there, rules being the same if their pointers are. The error joins
// everything that is wrong in any rule, and there is then no part at all.
func NewPart(name string, rules []*Rule, before *Part) (*Part, error) {
	if len(rules) > MaxRules {
		return nil, tooManyRules(len(rules))
	}
	p := &Part{Name: name, n: len(rules), rules: make(map[*Rule][]netip.Prefix, len(rules))}
	if before == nil {
		before = new(Part)
	}
	var others []*Rule
	var problems []error
	same := true // the others
	for _, r := range rules {
		ranges, known := before.rules[r]
		if !known {
			c, err := compile(r, newSlots())
			problems = append(problems, err)
			if c.byAddress() {
				ranges = c.ranges
			}
		}
		p.rules[r] = ranges
		if ranges == nil {
			same = same && known
			others = append(others, r)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	p.others = len(others)
	if same && p.others == before.others {
		p.set = before.set
	} else if err := p.compile(others, before.set); err != nil {
		return nil, err
	}
	p.editAddresses(rules, before)
	return p, nil
}

// compile makes the set of rules that are not by address alone.
func (p *Part) compile(rules []*Rule, before *Set) error {
	p.set = &Set{slots: *newSlots()}
	for _, r := range rules {
		c, err := compile(r, &p.set.slots)
		if err != nil {
			return err
		}
		p.set.addApart(c)
	}
	if err := p.set.checkAgents(); err != nil {
		return err
	}
	p.set.takeAgents(before)
	p.set.index()
	return nil
}

// Entries are what a list of somebody else's holds.
type Entries struct {
	// Rule is what becomes of all that the entries match: its name, mode, source, action, end and note.
	// It has no fields and no site.
	Rule Rule
	// Prefixes of clients, plain and masked as by [ParsePrefix].
	Prefixes []netip.Prefix
	// Until is when single prefixes end, before the rule does; may be nil.
	Until map[netip.Prefix]time.Time
	// Agents are names for the field agent.
	Agents []string
}

// NewListPart compiles the entries of a list, in one rule, without bounds on the prefixes
// but memory.
func NewListPart(e Entries) (*Part, error) {
	if len(e.Rule.Fields) > 0 || e.Rule.Scope != (Scope{}) {
		return nil, fmt.Errorf("rule %q: must have neither fields nor a scope", e.Rule.Name)
	}
	if err := e.Rule.checkPlain(); err != nil {
		return nil, fmt.Errorf("rule %q: %w", e.Rule.Name, err)
	}
	var rules []*Rule
	if len(e.Agents) > 0 {
		r := e.Rule
		r.Fields = []Field{{Name: "agent", Patterns: e.Agents}}
		rules = append(rules, &r)
	}
	p, err := NewPart(e.Rule.Name, rules, nil)
	if err == nil {
		p.n = len(e.Agents) + len(e.Prefixes)
	}
	if err != nil || len(e.Prefixes) == 0 || e.Rule.Mode == Off {
		return p, err
	}
	r := e.Rule
	edit := addresses{}.edit()
	ends := make(map[time.Time]*owners)
	for _, prefix := range e.Prefixes {
		end, ok := e.Until[prefix]
		if !ok || !r.Expires.IsZero() && r.Expires.Before(end) {
			end = r.Expires
		}
		alone := ends[end]
		if alone == nil {
			one := r
			one.Expires = end
			alone = &owners{[]*Rule{&one}}
			ends[end] = alone
		}
		edit.add(alone.rules[0], alone, []netip.Prefix{prefix})
	}
	if r.Mode == DryRun {
		p.dry = edit.done()
	} else {
		p.refuse = edit.done()
	}
	return p, nil
}

// Len returns how many rules the part has, or how many entries of a list.
func (p *Part) Len() int {
	if p == nil {
		return 0
	}
	return p.n
}

// byAddress reports whether the rule looks at nothing but the client's address.
func (c *compiled) byAddress() bool {
	return c.ranges != nil && len(c.conditions) == 0 && c.agents == nil && c.site == nil &&
		(c.rule.Action != Mark || c.rule.Mode == DryRun)
}

// editAddresses makes the tries out of those before.
func (p *Part) editAddresses(rules []*Rule, before *Part) {
	changed, all := 0, 0
	for r, ranges := range before.rules {
		if _, stays := p.rules[r]; !stays {
			changed += len(ranges)
		}
	}
	for r, ranges := range p.rules {
		all += len(ranges)
		if _, had := before.rules[r]; !had {
			changed += len(ranges)
		}
	}
	if changed == 0 {
		p.refuse, p.dry = before.refuse, before.dry
		return
	}
	if changed > few || changed > all/2 {
		before = new(Part) // all anew
	}
	refuse, dry := before.refuse.edit(), before.dry.edit()
	tier := func(r *Rule) *addressEdit {
		switch r.Mode {
		case Enforce:
			return refuse
		case DryRun:
			return dry
		}
		return nil
	}
	for r, ranges := range before.rules {
		if _, stays := p.rules[r]; !stays && tier(r) != nil {
			tier(r).remove(r, ranges)
		}
	}
	for _, r := range rules {
		if _, had := before.rules[r]; !had && tier(r) != nil {
			tier(r).add(r, &owners{[]*Rule{r}}, p.rules[r])
		}
	}
	p.refuse, p.dry = refuse.done(), dry.done()
}
