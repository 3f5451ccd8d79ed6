package admin

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// Preview is what rules would have done to the recent requests of one Caddy. Requests are
// counted with their weights: under load the sample holds one of so many.
type Preview struct {
	// All counts what the sample holds, and Hit what the rules would have hit.
	All Count `json:"all"`
	Hit Count `json:"hit"`
	// Share of the requests, the addresses and the signed-in users that would have been hit, from
	// 0 to 1.
	Share     float64 `json:"share"`
	Addresses float64 `json:"addresses_share"`
	Users     float64 `json:"users_share"`
	// Since is when the oldest request of the sample came.
	Since *time.Time `json:"since,omitempty"`
	// What the hit requests have most in common, the most frequent first.
	Hosts    []Part `json:"hosts,omitempty"`
	Paths    []Part `json:"paths,omitempty"`
	Agents   []Part `json:"agents,omitempty"`
	Statuses []Part `json:"statuses,omitempty"`
	// Unseen names the fields that the rules look at and the sample does not keep: what
	// they would have hit is not known then.
	Unseen []string `json:"unseen,omitempty"`
	// Cut is how many requests of the sample are not whole, having been too long.
	Cut int `json:"cut,omitempty"`
}

// Count counts a part of the sample.
type Count struct {
	Requests  int64 `json:"requests"`
	Addresses int   `json:"addresses"`
	Users     int   `json:"users"`
}

// Part is a value that requests have in common.
type Part struct {
	Value    string `json:"value"`
	Requests int64  `json:"requests"`
}

// mostParts is how many values of each kind a preview names.
const mostParts = 5

// Replay says what rules would have done, had they been in force, enforcing and without
// an end. The error says what is wrong with the rules.
func Replay(rules []blocklist.Rule, sample []observe.Seen) (Preview, error) {
	p := Preview{Unseen: unseen(rules)}
	part, err := blocklist.NewPart("preview", inForce(rules), nil)
	if err != nil {
		return Preview{}, err
	}
	would := &blocklist.Snapshot{Parts: []*blocklist.Part{part}}
	all, hit := newCrowd(), newCrowd()
	hosts, paths, agents, statuses := tally{}, tally{}, tally{}, tally{}
	for i := range sample {
		s := &sample[i]
		all.add(s)
		if p.Since == nil || s.At.Before(*p.Since) {
			p.Since = &s.At
		}
		if s.Cut {
			p.Cut++
		}
		if would.Hit(&s.Request, s.At).None() {
			continue
		}
		hit.add(s)
		hosts[s.Request.Host] += s.Weight
		paths[s.Request.Path] += s.Weight
		agents[first(s.Request.Header["User-Agent"])] += s.Weight
		statuses[statusOf(s)] += s.Weight
	}
	p.All, p.Hit = all.count(), hit.count()
	p.Share = share(p.Hit.Requests, p.All.Requests)
	p.Addresses = share(int64(p.Hit.Addresses), int64(p.All.Addresses))
	p.Users = share(int64(p.Hit.Users), int64(p.All.Users))
	p.Hosts, p.Paths, p.Agents, p.Statuses = hosts.top(), paths.top(), agents.top(), statuses.top()
	return p, nil
}

// inForce returns the rules as if they were enforced, all in one go.
func inForce(rules []blocklist.Rule) []*blocklist.Rule {
	forced := make([]*blocklist.Rule, len(rules))
	for i, r := range rules {
		r.Mode, r.Expires, r.Action = blocklist.Enforce, time.Time{}, 0
		forced[i] = &r
	}
	return forced
}

// unseen names the headers that rules look at and the sample does not keep.
func unseen(rules []blocklist.Rule) []string {
	var names []string
	for i := range rules {
		for _, f := range rules[i].Fields {
			if name := textproto.CanonicalMIMEHeaderKey(f.Header); name != "" && !observe.Kept(name) {
				names = append(names, "header "+name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A crowd is who sent some of the requests.
type crowd struct {
	requests  int64
	addresses map[netip.Addr]struct{}
	users     map[string]struct{}
}

func newCrowd() *crowd {
	return &crowd{addresses: make(map[netip.Addr]struct{}), users: make(map[string]struct{})}
}

func (c *crowd) add(s *observe.Seen) {
	c.requests += s.Weight
	if s.Request.Client.IsValid() {
		c.addresses[s.Request.Client] = struct{}{}
	}
	if user := cmp.Or(s.User, s.Request.User); user != "" {
		c.users[user] = struct{}{}
	}
}

func (c *crowd) count() Count { return Count{c.requests, len(c.addresses), len(c.users)} }

// A tally counts requests by a value.
type tally map[string]int64

// top returns the most frequent values.
func (t tally) top() []Part {
	parts := make([]Part, 0, len(t))
	for value, n := range t {
		parts = append(parts, Part{value, n})
	}
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	return parts[:min(len(parts), mostParts)]
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func statusOf(s *observe.Seen) string {
	if s.Status == 0 {
		return "unknown"
	}
	return strconv.Itoa(s.Status)
}

// tooMuch says why a preview speaks against the rules; nil if it does not.
func (p *Preview) tooMuch(most float64) error {
	switch {
	case len(p.Unseen) > 0:
		return fmt.Errorf("preview: the sample of recent requests does not keep %s, so what the rule would hit is not known", p.Unseen[0])
	case p.Share > most:
		return fmt.Errorf("preview: would hit %s of the recent requests, more than %s", Percent(p.Share), Percent(most))
	}
	return nil
}

// Percent writes a share for people: 0.2 %, 12 %.
func Percent(share float64) string {
	digits := 0
	if share > 0 && share < 0.1 {
		digits = 1
	}
	return strconv.FormatFloat(100*share, 'f', digits, 64) + " %"
}
