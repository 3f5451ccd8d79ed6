package blocklist

import "time"

// DefaultBudget is how long the dry-run rules of a set may take for one request.
const DefaultBudget = time.Millisecond

// A Budget bounds the time that rules in dry run cost: they refuse nobody, and so must not
// harm anybody either. What exceeds it ends the look at dry-run rules for the request; and a
// rule that keeps exceeding it by itself is stopped: it is passed over from then on, for as long as the
// set it is compiled in lasts. A nil budget bounds nothing.
type Budget struct {
	// Most is how long they may take. Default: [DefaultBudget].
	Most time.Duration
	// Now is the clock. Default: the system's, which never goes back.
	Now func() time.Time
	// Stopped, if not nil, is told of each rule that is stopped, once, by the request that
	// it was stopped in.
	Stopped func(*Rule)
}

// A pause of the process can make any rule look slow for once: so each time counts slowCost, any
// other takes one of that away, and a rule is stopped at slowLimit. That is a rule that is slow for one
// request in a hundred, or more.
const (
	slowCost  = 100
	slowLimit = 3 * slowCost
)

// spending is what one request has spent: when it began, and when the last rule ended.
type spending struct{ began, last time.Time }

func (b *Budget) now() time.Time {
	if b.Now != nil {
		return b.Now()
	}
	return time.Now()
}

func (b *Budget) most() time.Duration {
	if b.Most > 0 {
		return b.Most
	}
	return DefaultBudget
}

func (b *Budget) begin() spending {
	if b == nil {
		return spending{}
	}
	now := b.now()
	return spending{now, now}
}

// stopped reports whether the rule is not to be looked at any more.
func (b *Budget) stopped(c *compiled) bool { return b != nil && c.slow.Load() >= slowLimit }

// charge notes that the rule was looked at, and reports whether the budget is exceeded.
func (b *Budget) charge(c *compiled, s *spending) bool {
	if b == nil {
		return false
	}
	now := b.now()
	took := now.Sub(s.last)
	s.last = now
	switch slow := c.slow.Load(); {
	case took > b.most():
		if n := c.slow.Add(slowCost); n >= slowLimit && n-slowCost < slowLimit && b.Stopped != nil {
			b.Stopped(c.rule)
		}
	case slow > 0 && slow < slowLimit:
		c.slow.CompareAndSwap(slow, slow-1)
	}
	return now.Sub(s.began) > b.most()
}
