package config

import (
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// HasBans reports whether there are bans for a zone, in force or only remembered. It costs next to
// nothing.
func (l *List) HasBans(zone string) bool { return l.snapshot.Load().Bans.Zone(zone) > 0 }

// Banned returns the ban of a key for a zone that ends last, of whatever origin. name is what the key is called,
// see [Shared.Name]. It allocates nothing.
func (l *List) Banned(zone, name string, now time.Time) (*blocklist.Ban, bool) {
	b := l.snapshot.Load().Bans.Find(blocklist.Scope{Kind: blocklist.ScopeZone, Name: zone}, name, now)
	return b, b != nil
}

// BannedByOthers is Banned but for what the zone's own counting made.
func (l *List) BannedByOthers(zone, name string, now time.Time) (*blocklist.Ban, bool) {
	b := l.snapshot.Load().Bans.FindByOthers(zone, name, now)
	return b, b != nil
}

// BannedAt is Banned for a site, whose bans and those for all reach it.
func (l *List) BannedAt(site, name string, now time.Time) (*blocklist.Ban, bool) {
	bans := l.snapshot.Load().Bans
	b := bans.Find(blocklist.Scope{Kind: blocklist.ScopeSite, Name: site}, name, now)
	if all := bans.Find(blocklist.Scope{}, name, now); b == nil || all != nil && all.Until.After(b.Until) {
		b = all
	}
	return b, b != nil
}

// Ban returns the ban with an ID, also one that is over and only remembered.
func (l *List) Ban(id blocklist.BanID) (*blocklist.Ban, bool) {
	b := l.snapshot.Load().Bans.Get(id)
	return b, b != nil
}

// LastBan is Ban for a zone's key.
func (l *List) LastBan(zone, name, origin string) (*blocklist.Ban, bool) {
	return l.Ban(blocklist.BanID{Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: zone}, Origin: origin, Key: name})
}

// Neighbours returns how many bans for a zone are in force whose parent is called so.
func (l *List) Neighbours(zone, parent string, now time.Time) int {
	return l.Children(blocklist.Scope{Kind: blocklist.ScopeZone, Name: zone}, parent, now)
}

// Children is Neighbours for any scope.
func (l *List) Children(scope blocklist.Scope, parent string, now time.Time) int {
	return l.snapshot.Load().Bans.Children(scope, parent, now)
}

// Explain looks at everything in the list that could decide about a request, in order.
func (l *List) Explain(r *blocklist.Request, now time.Time) []blocklist.Step {
	return l.snapshot.Load().Explain(r, now)
}

// A Decision is what the shared list says of a request that is no HTTP request to a handler, such as a
// background job.
type Decision struct {
	// Hit is what refuses or marks the request; none if it passes as it came.
	blocklist.Hit
	// Dry are the rules in dry run that match, and, in a list that is all in dry run, what would have been
	// Hit.
	Dry []blocklist.Hit
}

// Check decides about a request by the shared list alone.
func (l *List) Check(r *blocklist.Request, now time.Time) Decision {
	s := l.snapshot.Load()
	var d Decision
	if s.Off() || s.Allows(r.Client) || r.Client.IsValid() && l.protection.holds(blocklist.Plain(r.Client)) {
		return d
	}
	hit, dry := s.Match(r, now, nil)
	if s.Mode == blocklist.DryRun && !hit.None() {
		d.Dry = append(d.Dry, hit)
	} else {
		d.Hit = hit
	}
	for _, rule := range dry {
		d.Dry = append(d.Dry, blocklist.Hit{Rule: rule})
	}
	return d
}

// Seen returns what observers keep about whatever hit: a list of others, the rules made at run time, or
// bans. Names of single rules are no labels: there may be any number.
func (l *List) Seen(h blocklist.Hit) *observe.Rule {
	switch {
	case h.Ban != nil:
		return l.banned
	case h.From != nil && l.seen[h.From.Name] != nil:
		return l.seen[h.From.Name]
	case h.From == nil && h.Rule != nil && l.seen[h.Rule.Name] != nil:
		return l.seen[h.Rule.Name]
	}
	return l.made
}
