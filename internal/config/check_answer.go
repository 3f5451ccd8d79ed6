package config

import (
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// An Answer says whether what was asked about may go on.
type Answer struct {
	// Verdict is pass or drop.
	Verdict string `json:"verdict"`
	// Rule is the name of the rule that drops it, or that marks it; Ban is set if it is
	// a ban that drops it.
	Rule string `json:"rule,omitempty"`
	Ban  bool   `json:"ban,omitempty"`
	// Dropped is what to do with a dropped job: drop, retry or dead_letter.
	Dropped string `json:"dropped,omitempty"`
	// RetryAfter is after how many seconds to try again.
	RetryAfter float64 `json:"retry_after,omitempty"`
	// Status is what a request would be refused with; 0 if the rule does not say.
	Status int `json:"status,omitempty"`
	// DryRun names the rules that would have dropped it, were they not in dry run.
	DryRun []string `json:"dry_run,omitempty"`
}

// The verdicts.
const (
	verdictPass = "pass"
	verdictDrop = "drop"
)

// decide answers what was asked, in the order of a block handler: the mode, what is allowed, the
// rules of the configuration that name the source, and the shared list.
func (s *Shared) decide(r *blocklist.Request, now time.Time) Answer {
	a := Answer{Verdict: verdictPass}
	snapshot := s.list.Snapshot()
	if snapshot.Off() {
		return a
	}
	observe.Recents.Begin(r, now)
	if snapshot.Allows(r.Client) {
		return a
	}
	for _, g := range s.Gates() {
		if s.askGate(&a, g, r, snapshot.Mode == blocklist.DryRun, now) {
			return a
		}
	}
	d := s.list.Check(r, now)
	for _, h := range d.Dry {
		s.dry(&a, r, h.Rule, s.list.Seen(h))
	}
	switch {
	case d.Ban != nil:
		a.Verdict, a.Rule, a.Ban = verdictDrop, "", true
		if r.Source == blocklist.Job {
			a.Dropped = blocklist.Drop.String()
		}
		s.Observers.Observe(observe.Outcome{Asked: r, Kind: observe.Refused, Rule: s.list.Seen(d.Hit)})
	case d.Rule != nil && (a.Rule == "" || d.Rule.Action != blocklist.Mark):
		s.hit(&a, r, d.Rule, s.list.Seen(d.Hit))
	}
	return a
}

// askGate asks the rules of a handler, and reports whether that settles it.
func (s *Shared) askGate(a *Answer, g *Gate, r *blocklist.Request, trial bool, now time.Time) bool {
	rule, dry := g.ask(r, now)
	if rule != nil && trial {
		dry = append([]*blocklist.Rule{rule}, dry...)
		rule = nil
	}
	for _, d := range dry {
		s.dry(a, r, d, g.asked.seen[d.Name])
	}
	return rule != nil && s.hit(a, r, rule, g.asked.seen[rule.Name])
}

// hit makes the answer that of a rule, and reports whether that settles it: a mark does not.
func (s *Shared) hit(a *Answer, r *blocklist.Request, rule *blocklist.Rule, seen *observe.Rule) bool {
	a.Rule = rule.Name
	kind := observe.Refused
	switch {
	case rule.Action == blocklist.Mark:
		kind = observe.Marked
	case r.Source == blocklist.Job:
		a.Verdict = verdictDrop
		a.Dropped, a.RetryAfter = rule.Dropped.Fate.String(), rule.Dropped.After.Seconds()
	default:
		a.Verdict, a.Status = verdictDrop, max(0, int(rule.Action))
	}
	s.Observers.Observe(observe.Outcome{Asked: r, Kind: kind, Rule: seen, Name: rule.Name})
	return kind == observe.Refused
}

// dry adds what is in dry run; rule is nil for a ban.
func (s *Shared) dry(a *Answer, r *blocklist.Request, rule *blocklist.Rule, seen *observe.Rule) {
	o := observe.Outcome{Asked: r, Kind: observe.DryRefused, Rule: seen}
	switch {
	case rule == nil:
		a.DryRun = append(a.DryRun, "ban")
	case rule.Action == blocklist.Mark:
		o.Kind, o.Name = observe.DryMarked, rule.Name
	default:
		o.Name = rule.Name
		a.DryRun = append(a.DryRun, rule.Name)
	}
	s.Observers.Observe(o)
}
