package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter/people"
)

// People allows an address more by how many people there seem to be behind it: Events of the
// ban are multiplied by PerUser times the users who signed in from it within a day, or where
// nobody did by the number of different browsers (User-Agent with Accept-Language), at most
// Max. Only answers below 400 show anybody. All nodes on one Redis see the same people.
type People struct {
	// User is the name of who has signed in, once the request has been answered. Default:
	// {http.auth.user.id}.
	User string `json:"user,omitempty"`
	// PerUser is how many people there are for each one who signs in, 0.01 to 1000. Default: 1.
	PerUser float64 `json:"per_user,omitempty"`
	// Max is the highest factor without an override, 1 to 1,000. Clients choose what they
	// send, and may seem to be many. Default: 5.
	Max int `json:"max,omitempty"`
	// Overrides are what an operator knows better. The first one that holds an address counts.
	Overrides []Override `json:"overrides,omitempty"`
}

// Override gives the addresses in a range a factor of their own.
type Override struct {
	// Range is an address or a CIDR range.
	Range string `json:"range"`
	// Factor by which they are allowed more, 1 to 1,000,000.
	Factor int `json:"factor"`
	// Note is for people.
	Note string `json:"note,omitempty"`
	// Expires is when the override ends: RFC 3339, or a duration that is counted from
	// when the configuration is loaded. Default: never.
	Expires string `json:"expires,omitempty"`
}

// What People's zero values stand for.
const (
	defaultUser      = "{http.auth.user.id}"
	defaultMaxFactor = 5
)

const (
	maxFactor   = 1000
	maxOverride = 1_000_000
)

func (p *People) resolved() *People {
	if p == nil {
		return nil
	}
	c := *p
	setDefault(&c.User, defaultUser)
	setDefault(&c.PerUser, 1)
	setDefault(&c.Max, defaultMaxFactor)
	return &c
}

// check says what is wrong with people whose defaults are filled in.
func (p *People) check(r report) {
	if p == nil {
		return
	}
	// What is empty while a request is decided need not be so any more afterwards.
	_, unknown := checkPlaceholders(p.User)
	if unknown == nil && !strings.Contains(p.User, "{") {
		unknown = fmt.Errorf("must hold a placeholder, got %q", p.User)
	}
	r.in("user").problem(unknown)
	if !(p.PerUser >= 0.01 && p.PerUser <= maxFactor) {
		r.in("per_user").problemf("must be between 0.01 and %d, got %g", maxFactor, p.PerUser)
	}
	r.in("max").between(p.Max, 1, maxFactor)
	_, err := p.allowance(time.Unix(0, 0))
	r.problem(err)
}

// allowance builds what turns people into a factor. Durations are counted from now.
func (p *People) allowance(now time.Time) (*people.Allowance, error) {
	a := &people.Allowance{PerUser: p.PerUser, Max: p.Max}
	for i := range p.Overrides {
		o := &p.Overrides[i]
		prefix, err := blocklist.ParsePrefix(o.Range)
		if err != nil {
			return nil, fmt.Errorf("overrides[%d]: range: %w", i, err)
		}
		if o.Factor < 1 || o.Factor > maxOverride {
			return nil, fmt.Errorf("overrides[%d]: factor: must be between 1 and %d, got %d", i, maxOverride, o.Factor)
		}
		expires, err := ParseEnd(o.Expires, now)
		if err != nil {
			return nil, fmt.Errorf("overrides[%d]: expires: %w", i, err)
		}
		a.Overrides = append(a.Overrides, people.Override{Range: prefix, Factor: o.Factor, Expires: expires, Note: o.Note})
	}
	return a, nil
}

// highest is the highest factor that there can be.
func (p *People) highest() int {
	if p == nil {
		return 1
	}
	most := p.Max
	for i := range p.Overrides {
		most = max(most, p.Overrides[i].Factor)
	}
	return most
}
