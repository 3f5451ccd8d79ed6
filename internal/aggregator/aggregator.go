// Package aggregator knows who fetches a feed for many readers at once, and believes nobody
// who only says so.
//
// A request is an aggregator's if its User-Agent fits and its address is verified: it lies in
// the ranges that the aggregator publishes, or its name in DNS lies in one of the
// aggregator's domains and leads back to the address (forward-confirmed reverse DNS, as search
// engines tell sites to verify their crawlers). A [Set] says whose a request is, a [Verifier]
// asks the DNS beside the requests. [Subscribers] reads for how many readers an aggregator says
// it comes, a [Scale] how much more that allows it.
//
// The package counts no requests and knows nothing of Caddy; the clock is an argument.
package aggregator

import (
	"net/netip"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// An Aggregator is one service that fetches feeds for others.
type Aggregator struct {
	// Name is what it is called.
	Name string
	// Agents are the patterns of its User-Agent. One has to fit.
	Agents []blocklist.Pattern
	// Ranges are where it fetches from.
	Ranges []Ranges
	// Domains are where its addresses are named.
	Domains Domains
}

// Ranges are a set of addresses, which may change. [blocklist.Prefixes] is one that does not.
type Ranges interface {
	Contains(a netip.Addr) bool
}

// A Verdict is what is known of a request that says it is an aggregator's.
type Verdict uint8

// The verdicts.
const (
	// Unknown is one whose address is not looked up yet, or cannot be.
	Unknown Verdict = iota
	// Verified is the aggregator's.
	Verified
	// Forged is not the aggregator's.
	Forged
)

// String returns the verdict's word in metrics.
func (v Verdict) String() string {
	switch v {
	case Verified:
		return "verified"
	case Forged:
		return "forged"
	}
	return "unknown"
}

// A Set is the aggregators of a zone. It is safe for concurrent use once it is built; the zero
// value has none.
type Set struct {
	// All of them. Of several whose agent fits the first one that is verified counts.
	All []Aggregator
	// Verifier looks up addresses; nil if no aggregator has domains.
	Verifier *Verifier
}

// maxAgent is the longest User-Agent, in bytes, that is an aggregator's. The longest known ones
// have some 300.
const maxAgent = 512

// Find returns the aggregator that a request with this User-Agent says it is from, and whether
// that is so; nil if it says nothing of the kind. now is asked for the time only if somebody has to
// be verified. It waits for nothing and allocates nothing.
func (s *Set) Find(agent string, client netip.Addr, now func() time.Time) (found *Aggregator, verdict Verdict) {
	if agent == "" || len(agent) > maxAgent {
		return nil, Unknown
	}
	var room [maxAgent]byte
	text := append(room[:0], agent...)
	for i := range s.All {
		a := &s.All[i]
		if !a.fits(text) {
			continue
		}
		v := s.verify(a, client, now)
		if v == Verified {
			return a, Verified
		}
		if found == nil {
			found, verdict = a, v
		} else if v == Unknown {
			verdict = Unknown // it may still turn out to be that one's
		}
	}
	return found, verdict
}

func (a *Aggregator) fits(agent []byte) bool {
	for i := range a.Agents {
		if a.Agents[i].Match(agent) {
			return true
		}
	}
	return false
}

func (s *Set) verify(a *Aggregator, client netip.Addr, now func() time.Time) Verdict {
	if !client.IsValid() {
		return Forged // whoever is behind a socket has no address to verify
	}
	for _, ranges := range a.Ranges {
		if ranges.Contains(client) {
			return Verified
		}
	}
	if s.Verifier == nil || a.Domains.empty() {
		return Forged
	}
	return s.Verifier.Verify(client, a.Domains, now())
}
