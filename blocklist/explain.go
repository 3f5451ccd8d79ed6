package blocklist

import (
	"fmt"
	"strings"
	"time"
)

// A Step is one thing that is looked at for a request, and what came of it.
type Step struct {
	// Name is mode, allow, protected, bans, addresses, agents, rules, marks or dry_run; whoever
	// has rules of his own puts a step config between.
	Name string
	// Says is true if the step has something to say of the request. The first of those before
	// marks decides, save for a mode of dry_run.
	Says bool
	// Rule or Ban that hit, and the name of the part that the rule is of.
	Rule *Rule
	Ban  *Ban
	From string
	// Why tells a human what was found, such as `path "/wp-*" matches "/wp-login.php"`.
	Why string
}

// Explain looks at everything that could decide about the request, in order, also at what comes after
// the first that does.
func (s *Snapshot) Explain(r *Request, now time.Time) []Step {
	if s == nil {
		s = new(Snapshot)
	}
	client := Plain(r.Client)
	steps := []Step{
		{Name: "mode", Says: s.Mode != Enforce, Why: "the list's mode is " + s.Mode.String()},
		{Name: "allow", Says: s.Allows(client)},
		{Name: "protected", Says: s.Protects(client)},
	}
	if steps[1].Says {
		steps[1].Why = fmt.Sprintf("%s is allowed", client)
	}
	if steps[2].Says {
		steps[2].Why = fmt.Sprintf("%s is protected", client)
	}
	ban := Step{Name: "bans"}
	if b := s.Banned(r, now); b != nil {
		ban = Step{"bans", true, nil, b, "", fmt.Sprintf("banned by %s until %s", b.Origin, formatTime(b.Until))}
	}
	steps = append(steps, ban)
	byAddress := Hit{}
	for _, p := range s.Parts {
		if rule := p.refuse.find(client, r, now); rule != nil {
			byAddress = Hit{Rule: rule, From: p}
			break
		}
	}
	steps = append(steps, stepOf("addresses", byAddress, r))
	var held scratches
	for _, t := range []struct {
		name string
		of   func(*Set) *tier
	}{{"agents", agentTier}, {"rules", refuseTier}, {"marks", markTier}} {
		steps = append(steps, stepOf(t.name, s.first(t.of, r, now, &held), r))
	}
	held.free(s.Parts)
	for _, rule := range s.Dry(r, now, nil) {
		steps = append(steps, stepOf("dry_run", Hit{Rule: rule}, r))
	}
	return steps
}

func stepOf(name string, h Hit, r *Request) Step {
	if h.None() {
		return Step{Name: name}
	}
	step := Step{Name: name, Says: true, Rule: h.Rule, Why: h.Rule.Why(r)}
	if h.From != nil {
		step.From = h.From.Name
	}
	return step
}

// Why says, field by field, by which pattern the rule matches a request, or the first field by which it
// does not.
func (r *Rule) Why(q *Request) string {
	c, err := compile(r, newSlots())
	if err != nil {
		return err.Error()
	}
	if r.Source != AnySource && r.Source != q.Source {
		return fmt.Sprintf("is for source %s, not %s", r.Source, q.Source)
	}
	if c.site != nil && !isSite(q.Host, r.Scope.Name) {
		return fmt.Sprintf("is for %s, not %q", r.Scope, q.Host)
	}
	var why []string
	for i := range r.Fields {
		f := &r.Fields[i]
		text, matches := f.why(q)
		if !matches {
			return text
		}
		why = append(why, text)
	}
	if len(why) == 0 && r.Scope.Kind == ScopeSite {
		return "matches every request to " + r.Scope.Name
	}
	if len(why) == 0 && len(r.Fields) == 0 {
		return "holds " + Plain(q.Client).String()
	}
	return strings.Join(why, ", ")
}

// why says by which of its patterns the field matches.
func (f *Field) why(q *Request) (text string, matches bool) {
	l, err := lookFor(f)
	if err != nil {
		return err.Error(), false
	}
	client := Plain(q.Client)
	sc := &scratch{slots: make([]values, 1)}
	var values [][]byte
	switch l.kind {
	case address:
		values = [][]byte{[]byte(client.String())}
	case agent:
		values = sc.values(q, &slots{userAgent}, 0)
	default:
		values = sc.values(q, &slots{l}, 0)
	}
	for _, pattern := range f.Patterns {
		one := Rule{Name: "x", Fields: []Field{{f.Name, f.Header, []string{pattern}}}}
		p, err := NewPart("", []*Rule{&one}, nil)
		if err != nil {
			continue
		}
		if h := (&Snapshot{Parts: []*Part{p}}).Hit(q, time.Time{}); h.None() {
			continue
		}
		if len(values) == 0 {
			return fmt.Sprintf("%s %q matches anything", f.label(), pattern), true
		}
		return fmt.Sprintf("%s %q matches %q", f.label(), pattern, cut(string(values[0]))), true
	}
	if len(values) == 0 {
		return fmt.Sprintf("%s: the request has none", f.label()), false
	}
	return fmt.Sprintf("%s matches none of %q", f.label(), cut(string(values[0]))), false
}

// cut shortens a value for a message.
func cut(value string) string {
	const most = 120
	if len(value) > most {
		return strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}
