package admin

import (
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Verdict is what would become of a request, and why.
type Verdict struct {
	// Outcome is pass, refuse or mark.
	Outcome string `json:"outcome"`
	// By is the step that decided: mode, allow, config, protected, bans, addresses, agents, rules, zones
	// or marks; empty if nothing has anything against the request.
	By string `json:"by,omitempty"`
	// Rule is the name of the rule that decided, and Ban the ID of the ban.
	Rule string `json:"rule,omitempty"`
	Ban  string `json:"ban,omitempty"`
	// Action is what the rule does, if it says so: a status, abort, tarpit or mark.
	Action string `json:"action,omitempty"`
	// Dropped is what a worker does with a dropped job: drop, dead_letter or retry:30s.
	Dropped string `json:"dropped,omitempty"`
	// Ends is when the rule or the ban ends.
	Ends *time.Time `json:"ends,omitempty"`
	// DryRun names what would have decided, were it not in dry run.
	DryRun []string `json:"dry_run,omitempty"`
	// Warnings say why it may be otherwise.
	Warnings []string `json:"warnings,omitempty"`
	// Steps are all that was looked at, in order.
	Steps []Step `json:"steps"`
}

// Step is one thing that is looked at.
type Step struct {
	Name string `json:"name"`
	// Says is true if the step has something to say of the request.
	Says bool   `json:"says"`
	Rule string `json:"rule,omitempty"`
	Ban  string `json:"ban,omitempty"`
	// From is the source that the rule is of, if it is not the list itself.
	From string `json:"from,omitempty"`
	// Why says what was found.
	Why string `json:"why,omitempty"`
}

// The outcomes.
const (
	Pass   = "pass"
	Refuse = "refuse"
	Marked = "mark"
)

// verdictOf reads the steps of an explanation: the first that says something decides. In dry
// run nothing is refused.
func verdictOf(mode blocklist.Mode, steps []blocklist.Step, source blocklist.Source) Verdict {
	v := Verdict{Outcome: Pass, Steps: make([]Step, 0, len(steps))}
	decided := false
	for i := range steps {
		s := &steps[i]
		v.Steps = append(v.Steps, stepOf(s))
		switch {
		case !s.Says:
		case s.Name == "dry_run":
			if !decided || v.Outcome == Marked {
				v.DryRun = append(v.DryRun, s.Rule.Name)
			}
		case decided || s.Name == "mode" && mode != blocklist.Off:
		case mode == blocklist.DryRun && (s.Rule != nil || s.Ban != nil):
			decided = true
			v.DryRun = append(v.DryRun, nameOf(s))
		default:
			decided = true
			v.decide(s, source)
		}
	}
	return v
}

// decide makes the verdict that of a step.
func (v *Verdict) decide(s *blocklist.Step, source blocklist.Source) {
	v.By = s.Name
	var ends time.Time
	switch {
	case s.Rule != nil:
		r := s.Rule
		v.Outcome, v.Rule, v.Action, ends = Refuse, r.Name, r.Action.String(), r.Expires
		if r.Action == blocklist.Mark {
			v.Outcome = Marked
		}
		if source == blocklist.Job && v.Outcome == Refuse {
			v.Action, v.Dropped = "", r.Dropped.String()
		}
	case s.Ban != nil:
		v.Outcome, v.Ban, ends = Refuse, s.Ban.ID().String(), s.Ban.Until
		if source == blocklist.Job {
			v.Dropped = blocklist.Drop.String()
		}
	}
	if !ends.IsZero() && ends.Before(blocklist.Never) {
		v.Ends = &ends
	}
}

func nameOf(s *blocklist.Step) string {
	if s.Rule != nil {
		return s.Rule.Name
	}
	return "ban " + s.Ban.ID().String()
}

func stepOf(s *blocklist.Step) Step {
	step := Step{Name: s.Name, Says: s.Says, From: s.From, Why: s.Why}
	if s.Rule != nil {
		step.Rule = s.Rule.Name
	}
	if s.Ban != nil {
		step.Ban = s.Ban.ID().String()
	}
	return step
}
