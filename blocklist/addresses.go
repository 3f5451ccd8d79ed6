package blocklist

import (
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
)

// addresses finds rules that look at nothing but the client's address. It is immutable: a
// change makes the next trie out of the one before, at the cost of the ranges that come and
// go, so that a million others need not be built anew.
type addresses struct {
	trie *bart.Table[*owners] // nil while there are none
}

// owners are the rules that name one range. All ranges that one rule alone names share one.
type owners struct{ rules []*Rule }

// find returns a rule that holds the client, of the longest range that has one which applies.
// The client is plain, see [Plain].
func (a addresses) find(client netip.Addr, r *Request, now time.Time) *Rule {
	if a.trie == nil || !client.IsValid() {
		return nil
	}
	o, found := a.trie.Lookup(client)
	if !found {
		return nil
	}
	for p := netip.PrefixFrom(client, client.BitLen()); ; {
		for _, rule := range o.rules {
			if rule.applies(r, now) {
				return rule
			}
		}
		// Only where rules have ended are wider ranges looked at.
		if p, o, found = a.next(p); !found {
			return nil
		}
	}
}

// all appends all rules that hold the client and apply, from the longest range to the
// shortest.
func (a addresses) all(client netip.Addr, r *Request, now time.Time, hits []*Rule) []*Rule {
	if a.trie == nil || !client.IsValid() {
		return hits
	}
	o, found := a.trie.Lookup(client)
	for p := netip.PrefixFrom(client, client.BitLen()); found; p, o, found = a.next(p) {
		for _, rule := range o.rules {
			if rule.applies(r, now) && !slices.Contains(hits, rule) {
				hits = append(hits, rule)
			}
		}
	}
	return hits
}

// next returns the range that the longest one around p lies in. p is that range, or an address in it.
func (a addresses) next(p netip.Prefix) (netip.Prefix, *owners, bool) {
	longest, _, found := a.trie.LookupPrefixLPM(p)
	if !found || longest.Bits() == 0 {
		return p, nil, false
	}
	return a.trie.LookupPrefixLPM(netip.PrefixFrom(longest.Addr(), longest.Bits()-1).Masked())
}

// applies reports whether a rule that looks at nothing else is for the request.
func (r *Rule) applies(q *Request, now time.Time) bool {
	return (r.Source == AnySource || r.Source == q.Source) && !r.Expired(now)
}

// few is up to how many ranges are changed one by one. Changing one takes the copy of a few
// nodes; beyond that a new trie is cheaper.
const few = 10_000

// An addressEdit makes the next trie of one.
type addressEdit struct {
	trie *bart.Table[*owners]
	// own is set while the trie is not shared with another, and may be changed in place.
	own bool
}

func (a addresses) edit() *addressEdit {
	if a.trie == nil {
		return &addressEdit{new(bart.Table[*owners]), true}
	}
	return &addressEdit{a.trie, false}
}

// add makes a rule own ranges. alone is the owners of what it owns alone.
func (e *addressEdit) add(rule *Rule, alone *owners, ranges []netip.Prefix) {
	for _, p := range ranges {
		o := alone
		if had, found := e.trie.Get(p); found {
			if slices.Contains(had.rules, rule) {
				continue
			}
			o = &owners{append(slices.Clip(had.rules), rule)}
		}
		if e.own {
			e.trie.Insert(p, o)
		} else {
			e.trie = e.trie.InsertPersist(p, o)
		}
	}
}

// remove takes ranges from a rule.
func (e *addressEdit) remove(rule *Rule, ranges []netip.Prefix) {
	for _, p := range ranges {
		had, found := e.trie.Get(p)
		if !found || !slices.Contains(had.rules, rule) {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(had.rules), func(r *Rule) bool { return r == rule })
		switch {
		case len(left) > 0 && e.own:
			e.trie.Insert(p, &owners{left})
		case len(left) > 0:
			e.trie = e.trie.InsertPersist(p, &owners{left})
		case e.own:
			e.trie.Delete(p)
		default:
			e.trie = e.trie.DeletePersist(p)
		}
	}
}

func (e *addressEdit) done() addresses {
	if e.trie.Size() == 0 {
		return addresses{}
	}
	return addresses{e.trie}
}
