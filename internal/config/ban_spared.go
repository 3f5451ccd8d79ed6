package config

import (
	"net/netip"

	"github.com/weirhq/caddy-weir/blocklist"
)

// bans returns what bans the part's key for what it does: nil if nothing does, as for an
// aggregator that is verified. It fetches for people who have done nothing.
func (p *part) bans() *banMeter {
	if p.aggregator != nil {
		return nil
	}
	return p.zone.ban
}

// meets returns the ban that a part's request meets now, nil if there is none; dry is set if it
// refuses nobody.
func (b *bans) meets(p *part, client netip.Addr) (ban *blocklist.Ban, dry bool) {
	if p.aggregator != nil {
		return b.byOthers(p.zone, p.key, client)
	}
	return b.standing(p.zone, p.key, client)
}

// byOthers is standing for whom the zone itself does not ban: what somebody else decided about its
// address holds all the same, and no attempt makes it longer.
func (b *bans) byOthers(z *zoneMeter, key string, client netip.Addr) (ban *blocklist.Ban, dry bool) {
	zone, mode := z.seen.Name, b.list.Mode()
	if !b.list.HasBans(zone) || mode == blocklist.Off || z.spares(b, client) {
		return nil, false
	}
	now := b.now()
	for text := key; text != ""; text = z.ban.around(text) {
		name, ok := b.name(text)
		if !ok {
			continue
		}
		if found, ok := b.list.BannedByOthers(zone, name, now); ok && later(found, ban) {
			ban = found
		}
	}
	return ban, ban != nil && (z.shadow || mode == blocklist.DryRun)
}
