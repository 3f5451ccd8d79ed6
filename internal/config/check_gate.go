package config

import (
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// askedRules are those of a handler that name the source job or websocket.
type askedRules struct {
	*blocklist.Set
	seen map[string]*observe.Rule // by name
}

// compileAsked compiles those rules of the block; nil if there are none.
func (b *Block) compileAsked(now time.Time) (*askedRules, error) {
	some, seen := Block{Mode: b.Mode}, make(map[string]*observe.Rule)
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Source == blocklist.Job.String() || r.Source == blocklist.WebSocket.String() {
			some.Rules = append(some.Rules, *r)
			seen[r.Name] = observe.NewRule(r.Name)
		}
	}
	if len(seen) == 0 {
		return nil, nil
	}
	set, err := some.compile(now)
	return &askedRules{set, seen}, err
}

// ask says which of the handler's rules hits what is no request to it, and which in dry run would.
// Only those count that name their source: a matcher before the handler is part of what the others
// mean, and can select nothing here.
func (g *Gate) ask(r *blocklist.Request, now time.Time) (hit *blocklist.Rule, dry []*blocklist.Rule) {
	if g.off || g.asked == nil || g.allowRanges.Contains(r.Client) {
		return nil, nil
	}
	hit = g.asked.Hit(r, now)
	if hit == nil || hit.Action == blocklist.Mark {
		dry = g.asked.Dry(r, now, g.budget(), nil)
	}
	return hit, dry
}

// Explain looks at all that could decide about a request, in order: what the shared list looks at, and
// between what it allows and what it protects the rules of the configuration.
func (s *Shared) Explain(r *blocklist.Request, now time.Time) []blocklist.Step {
	var steps []blocklist.Step
	for _, step := range s.list.Explain(r, now) {
		if step.Name == "protected" {
			steps = append(steps, s.explainGates(r, now)...)
		}
		steps = append(steps, step)
	}
	return steps
}

// explainGates says which rules of the configuration hit, and what keeps them from it.
func (s *Shared) explainGates(r *blocklist.Request, now time.Time) []blocklist.Step {
	var steps []blocklist.Step
	for _, g := range s.Gates() {
		set, when := g.own, " (if the request reaches that block handler)"
		if r.Source == blocklist.Job {
			if g.asked == nil {
				continue
			}
			set, when = g.asked.Set, ""
		}
		switch {
		case g.off:
			continue
		case g.allowRanges.Contains(r.Client):
			steps = append(steps, blocklist.Step{Name: "config", Why: fmt.Sprintf("block %q allows %s", g.name, r.Client), From: g.name})
			continue
		}
		rule := set.Hit(r, now)
		if rule == nil {
			continue
		}
		steps = append(steps, blocklist.Step{Name: "config", Says: true, Rule: rule, From: g.name, Why: rule.Why(r) + when})
	}
	if len(steps) == 0 {
		steps = append(steps, blocklist.Step{Name: "config"})
	}
	return steps
}
