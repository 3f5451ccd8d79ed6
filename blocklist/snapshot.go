package blocklist

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Snapshot is all that a shared list says at one moment, ready for requests: what was made
// at run time, and the lists that others keep. It must not be changed once it is in use, and is
// then safe for concurrent use; a nil snapshot has nothing to say.
//
// A request is looked at in this order, and the first that says something decides: the mode, if
// it is off; what is allowed; what is protected; bans; rules by address alone; rules by
// agents alone; the other rules. Rules in dry run are looked at last, and decide nothing.
type Snapshot struct {
	// Mode of the whole. DryRun is up to the caller: everything is found as usual.
	Mode Mode
	// Allow are clients that nothing here concerns, nor anything that the caller adds.
	Allow *Prefixes
	// Protected are clients that nothing here concerns.
	Protected *Prefixes
	// Parts are the rules made at run time, and those of lists that others keep.
	Parts []*Part
	// Bans, of which those of sites and all concern requests.
	Bans Bans
	// Name appends to dst what bans call the network of an address. It reports false if that
	// cannot be known now. Nil if there are no names.
	Name func(dst []byte, network netip.Prefix) ([]byte, bool)
	// Budget of rules in dry run; nil for no bound.
	Budget *Budget
}

// A Hit is what a snapshot has against a request.
type Hit struct {
	// Ban or Rule that hit; both nil if nothing did. A rule may be one that marks.
	Ban  *Ban
	Rule *Rule
	// From is the part that the rule is of; nil for bans.
	From *Part
}

// None reports whether nothing hit.
func (h Hit) None() bool { return h.Ban == nil && h.Rule == nil }

// Same reports whether two snapshots say the same, being made of the same parts.
func (s *Snapshot) Same(o *Snapshot) bool {
	return s.Mode == o.Mode && s.Allow == o.Allow && s.Protected == o.Protected && s.Bans == o.Bans &&
		s.Budget == o.Budget && slices.Equal(s.Parts, o.Parts)
}

// Off reports whether nothing is to be looked at.
func (s *Snapshot) Off() bool { return s != nil && s.Mode == Off }

// OnTrial reports whether what refuses is only to be reported.
func (s *Snapshot) OnTrial() bool { return s != nil && s.Mode == DryRun }

// Allows reports whether nothing concerns the client.
func (s *Snapshot) Allows(client netip.Addr) bool { return s != nil && s.Allow.Contains(client) }

// Protects reports whether the client is exempt from all that is in the snapshot.
func (s *Snapshot) Protects(client netip.Addr) bool { return s != nil && s.Protected.Contains(client) }

// Match returns the first that refuses the request, or else the first that marks it, and then
// appends the rules in dry run that match to dry. It asks Protected itself; Off and Allows are
// the caller's to ask before.
func (s *Snapshot) Match(r *Request, now time.Time, dry []*Rule) (Hit, []*Rule) {
	if s == nil || s.Protects(r.Client) {
		return Hit{}, dry
	}
	hit := s.Hit(r, now)
	if hit.Ban == nil && (hit.Rule == nil || hit.Rule.Action == Mark) {
		dry = s.Dry(r, now, dry)
	}
	return hit, dry
}

// Hit is Match without what is protected and without the rules in dry run.
func (s *Snapshot) Hit(r *Request, now time.Time) Hit {
	if s == nil {
		return Hit{}
	}
	if b := s.Banned(r, now); b != nil {
		return Hit{Ban: b}
	}
	client := Plain(r.Client)
	for _, p := range s.Parts {
		if rule := p.refuse.find(client, r, now); rule != nil {
			return Hit{Rule: rule, From: p}
		}
	}
	// What is copied of the request for one tier serves the next.
	var held scratches
	hit := s.first(agentTier, r, now, &held)
	if hit.None() {
		hit = s.first(refuseTier, r, now, &held)
	}
	if hit.None() {
		hit = s.first(markTier, r, now, &held)
	}
	held.free(s.Parts)
	return hit
}

// Dry appends the rules in dry run that match, within the budget.
func (s *Snapshot) Dry(r *Request, now time.Time, dry []*Rule) []*Rule {
	if s == nil {
		return dry
	}
	client := Plain(r.Client)
	for _, p := range s.Parts {
		dry = p.dry.all(client, r, now, dry)
	}
	for _, p := range s.Parts {
		dry = p.set.Dry(r, now, s.Budget, dry)
	}
	return dry
}

// scratches are those of the first parts of a snapshot, one each: hardly any has more that
// are not by address alone.
type scratches [8]*scratch

func (h *scratches) free(parts []*Part) {
	for i, sc := range h {
		if sc != nil {
			parts[i].set.free(sc)
		}
	}
}

// The tiers of a part's set.
func agentTier(s *Set) *tier  { return &s.agent }
func refuseTier(s *Set) *tier { return &s.refuse }
func markTier(s *Set) *tier   { return &s.mark }

// first returns the first rule of a tier, in all parts, that matches.
func (s *Snapshot) first(of func(*Set) *tier, r *Request, now time.Time, held *scratches) Hit {
	for i, p := range s.Parts {
		if p.set == nil || len(of(p.set).rules) == 0 {
			continue
		}
		var sc *scratch
		if i < len(held) && held[i] != nil {
			sc = held[i]
		} else if sc = p.set.scratch(); i < len(held) {
			held[i] = sc
		}
		rule := p.set.first(of(p.set), r, now, sc)
		if i >= len(held) {
			p.set.free(sc)
		}
		if rule != nil {
			return Hit{Rule: rule, From: p}
		}
	}
	return Hit{}
}

// Banned returns the ban of a site or of all that keeps the client out and ends last; nil if there is
// none. Only where there are such bans is the client's name made, once for each length of
// network that they have.
func (s *Snapshot) Banned(r *Request, now time.Time) *Ban {
	if s.Bans.tally == nil || s.Bans.others == 0 || s.Name == nil || !r.Client.IsValid() {
		return nil
	}
	client := Plain(r.Client)
	room := names.Get().(*nameRoom)
	var found *Ban
	for bits := 1; bits <= client.BitLen(); bits++ {
		if s.Bans.lengths[bits] == 0 {
			continue
		}
		network, err := client.Prefix(bits)
		if err != nil {
			continue
		}
		name, known := s.Name(room[:0], network)
		if !known {
			break
		}
		for _, b := range s.Bans.byKey.ofBytes(name) {
			reaches := b.Scope.Kind == ScopeAll || b.Scope.Kind == ScopeSite && isSite(r.Host, b.Scope.Name)
			if reaches && b.Bits == bits && !b.Over(now) && (found == nil || b.Until.After(found.Until)) {
				found = b
			}
		}
	}
	names.Put(room)
	return found
}

// isSite reports whether a request's host is a site.
func isSite(host, site string) bool { return len(host) == len(site) && strings.EqualFold(host, site) }

// nameRoom is room for a name, which is kept in a pool since it is handed to a function.
type nameRoom [128]byte

var names = sync.Pool{New: func() any { return new(nameRoom) }}

// Network returns the text by which a network is named: the address alone where every bit
// counts, 192.0.2.1, else the range, 2001:db8:1:2::/64.
func Network(dst []byte, p netip.Prefix) []byte {
	if p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}
