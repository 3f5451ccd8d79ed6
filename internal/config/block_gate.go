package config

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/blocklist"
)

// A Gate is a Block that is built: it says which requests are refused or marked. It is safe for
// concurrent use.
type Gate struct {
	name        string // of the block, for people
	off         bool
	allowRanges *blocklist.Prefixes
	allow       caddyhttp.MatcherSets
	allows      bool // whether there are allow matchers: none at all would match everything
	everything  string
	dryRun      bool // of all
	own         *blocklist.Set
	asked       *askedRules // see [Gate.ask]
	status      int
	body        string
	alone       bool  // does without the shared list
	shared      *List // nil while it has not joined, and if it is alone
}

// A Refusal is what a gate says of one request.
type Refusal struct {
	// Rule is the name of the rule that refuses or marks; empty if the request passes
	// as it came. That of a ban is "ban".
	Rule string
	// Shared is what of the shared list refuses or marks; none if a rule of the handler
	// does.
	Shared blocklist.Hit
	// Action is [blocklist.Abort], [blocklist.Tarpit], [blocklist.Mark], or 0 for a
	// plain refusal.
	Action blocklist.Action
	// Status and Body of the answer to a refused request.
	Status int
	Body   string
	// RetryAfter is how long until the rule or the ban ends, if that is within a day; else 0.
	RetryAfter time.Duration
	// DryRun and DryMarked name the rules of the handler that would have refused or marked, had they
	// not been in dry run; SharedDry are those of the shared list.
	DryRun, DryMarked []string
	SharedDry         []blocklist.Hit
}

// Join makes the gate apply the shared list, unless its block says no, and its configuration
// know it.
func (g *Gate) Join(s *Shared) error {
	if !g.alone {
		if _, err := s.list.open(); err != nil {
			return err
		}
		g.shared = s.list
	}
	s.gatesMu.Lock()
	defer s.gatesMu.Unlock()
	s.gates = append(s.gates, g)
	return nil
}

// Name returns what the block is called, for people.
func (g *Gate) Name() string { return g.name }

// Off reports whether the gate looks at nothing: every request passes. The mode of the shared
// list, which may change at any time, counts if the gate applies it.
func (g *Gate) Off() bool { return g.off || g.shared != nil && g.shared.snapshot.Load().Off() }

// Match says whether the request is refused. An error is a matcher's own, such as 425 for
// TLS early data, and is to be returned to Caddy as it is.
func (g *Gate) Match(r *http.Request, now time.Time) (Refusal, error) {
	if g.off {
		return Refusal{}, nil
	}
	var snapshot *blocklist.Snapshot // nil says nothing
	if g.shared != nil {
		snapshot = g.shared.snapshot.Load()
	}
	client := ClientIP(r)
	if snapshot.Off() || g.allowRanges.Contains(client) || snapshot.Allows(client) {
		return Refusal{}, nil
	}
	if g.allows {
		if ok, err := g.allow.AnyMatchWithError(r); ok || err != nil {
			return Refusal{}, err
		}
	}
	dryRun := g.dryRun || snapshot.OnTrial()
	if g.everything != "" && !dryRun {
		return Refusal{Rule: g.everything, Status: g.status, Body: g.body}, nil
	}
	if snapshot.Protects(client) || g.shared != nil && g.shared.protection.isProxy(client) {
		snapshot = nil
	}
	request := requestOf(r, client)
	return g.decide(&request, snapshot, dryRun, now), nil
}

// decide asks the rules in their order: of the handler, then of the shared list, those that refuse
// before those that mark; and last, if nothing refuses, those in dry run.
func (g *Gate) decide(r *blocklist.Request, snapshot *blocklist.Snapshot, dryRun bool, now time.Time) Refusal {
	var f Refusal
	own := g.own.Hit(r, now)
	if own == nil || own.Action == blocklist.Mark || dryRun {
		if hit := snapshot.Hit(r, now); hit.Ban != nil || hit.Rule != nil && (own == nil || hit.Rule.Action != blocklist.Mark) {
			f.Shared = hit
		}
	}
	switch {
	case dryRun:
		// Below.
	case !f.Shared.None():
		f = g.refuseShared(f.Shared, now)
	case own != nil:
		f = g.refuse(own, now)
	}
	if !dryRun && f.Rule != "" && f.Action != blocklist.Mark {
		return f
	}
	return g.dry(f, own, r, snapshot, dryRun, now)
}

// dry adds what the rules in dry run say, and, if all is in dry run, the others.
func (g *Gate) dry(f Refusal, own *blocklist.Rule, r *blocklist.Request, snapshot *blocklist.Snapshot, dryRun bool, now time.Time) Refusal {
	if dryRun {
		if g.everything != "" {
			f.DryRun = append(f.DryRun, g.everything)
		}
		if own != nil {
			f.addDry(own)
		}
		if !f.Shared.None() {
			f.SharedDry = append(f.SharedDry, f.Shared)
			f.Shared = blocklist.Hit{}
		}
	}
	var room [8]*blocklist.Rule
	for _, rule := range g.own.Dry(r, now, g.budget(), room[:0]) {
		f.addDry(rule)
	}
	for _, rule := range snapshot.Dry(r, now, room[:0]) {
		f.SharedDry = append(f.SharedDry, blocklist.Hit{Rule: rule})
	}
	return f
}

func (f *Refusal) addDry(rule *blocklist.Rule) {
	if rule.Action == blocklist.Mark {
		f.DryMarked = append(f.DryMarked, rule.Name)
	} else {
		f.DryRun = append(f.DryRun, rule.Name)
	}
}

// budget is what the handler's rules in dry run may take.
func (g *Gate) budget() *blocklist.Budget {
	if g.shared == nil {
		return nil
	}
	return g.shared.budget
}

// refuse turns a rule that matched into the refusal.
func (g *Gate) refuse(rule *blocklist.Rule, now time.Time) Refusal {
	f := Refusal{Rule: rule.Name, Status: g.status, Body: g.body}
	switch {
	case rule.Action == blocklist.Mark:
		return Refusal{Rule: rule.Name, Action: rule.Action}
	case rule.Action > 0:
		f.Status = int(rule.Action)
	default:
		f.Action = rule.Action
	}
	f.RetryAfter = within(rule.Expires, now)
	return f
}

// refuseShared is refuse for what the shared list has against a request.
func (g *Gate) refuseShared(hit blocklist.Hit, now time.Time) Refusal {
	if hit.Ban != nil {
		return Refusal{
			Rule: "ban", Shared: hit, Status: g.status, Body: g.body, RetryAfter: within(hit.Ban.Until, now),
		}
	}
	f := g.refuse(hit.Rule, now)
	f.Shared = hit
	return f
}

// within returns how long it is until an end within a day; else 0.
func within(end, now time.Time) time.Duration {
	if left := end.Sub(now); !end.IsZero() && left <= 24*time.Hour {
		return left
	}
	return 0
}
