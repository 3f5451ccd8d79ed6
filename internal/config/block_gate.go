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
	off         bool
	allowRanges *blocklist.Prefixes
	allow       caddyhttp.MatcherSets
	allows      bool // whether there are allow matchers: none at all would match everything
	everything  string
	dryRun      bool // of everything
	list        *blocklist.List
	status      int
	body        string
}

// A Refusal is what a gate says of one request.
type Refusal struct {
	// Rule is the name of the rule that refuses or marks; empty if the request passes
	// as it came.
	Rule string
	// Action is [blocklist.Abort], [blocklist.Tarpit], [blocklist.Mark], or 0 for a
	// plain refusal.
	Action blocklist.Action
	// Status and Body of the answer to a refused request.
	Status int
	Body   string
	// RetryAfter is how long until the rule expires, if that is within a day; else 0.
	RetryAfter time.Duration
	// DryRun and DryMarked name the rules that would have refused or marked, had they
	// not been in dry run.
	DryRun, DryMarked []string
}

// Off reports whether the gate looks at nothing: every request passes.
func (g *Gate) Off() bool { return g.off }

// Match says whether the request is refused. An error is a matcher's own, such as 425 for
// TLS early data, and is to be returned to Caddy as it is.
func (g *Gate) Match(r *http.Request, now time.Time) (Refusal, error) {
	if g.off {
		return Refusal{}, nil
	}
	client := ClientIP(r)
	if g.allowRanges.Contains(client) {
		return Refusal{}, nil
	}
	if g.allows {
		if ok, err := g.allow.AnyMatchWithError(r); ok || err != nil {
			return Refusal{}, err
		}
	}
	switch {
	case g.everything == "":
	case g.dryRun:
		return Refusal{DryRun: []string{g.everything}}, nil
	default:
		return Refusal{Rule: g.everything, Status: g.status, Body: g.body}, nil
	}
	request := requestOf(r, client)
	hit, dry := g.list.Match(&request, now, nil)
	var f Refusal
	if hit != nil {
		f = g.refuse(hit, now)
	}
	for _, rule := range dry {
		if rule.Action == blocklist.Mark {
			f.DryMarked = append(f.DryMarked, rule.Name)
		} else {
			f.DryRun = append(f.DryRun, rule.Name)
		}
	}
	return f, nil
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
	if left := rule.Expires.Sub(now); !rule.Expires.IsZero() && left <= 24*time.Hour {
		f.RetryAfter = left
	}
	return f
}
