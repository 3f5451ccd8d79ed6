package config

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
)

// bans makes the bans of one configuration: it has their counts kept, turns overruns into bans
// that hold here at once, and puts them on the shared list, where every node finds them.
type bans struct {
	list    banList
	counter banCounter
	held    *heldBans
	crowds  *crowds
	// name returns what a key is called on the list; ok is false while that is not known.
	name func(key string) (name string, ok bool)
	// protected reports whether an address is never banned.
	protected func(a netip.Addr) bool
	// gated reports whether there is a block handler.
	gated  func() bool
	now    func() time.Time
	began  func(observe.Begun)
	logger *zap.Logger

	witnesses witnesses
	wake      chan struct{}
	alone     bool // whether it was logged that bans cannot be shared; belongs to run

	mu    sync.RWMutex
	zones map[string]*banMeter
}

// A banList is the shared list as bans need it.
type banList interface {
	HasBans(zone string) bool
	Banned(zone, name string, now time.Time) (*blocklist.Ban, bool)
	BannedByOthers(zone, name string, now time.Time) (*blocklist.Ban, bool)
	Ban(id blocklist.BanID) (*blocklist.Ban, bool)
	Children(scope blocklist.Scope, parent string, now time.Time) int
	Content() blocklist.Content
	Mode() blocklist.Mode
	Apply(ctx context.Context, c blocklist.Change, caller netip.Addr, force bool) (uint64, []blocklist.Danger, error)
}

// A banCounter keeps counts beside the requests, see [layer.Deferred].
type banCounter interface {
	Count(asks []limiter.Ask)
	Reset(ctx context.Context, l *limiter.Limit, key string) error
	Run(ctx context.Context)
}

// add makes a zone's ban known. Zones of one name are one zone.
func (b *bans) add(m *banMeter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.zones == nil {
		b.zones = make(map[string]*banMeter)
	}
	b.zones[m.zone] = m
}

// meter returns the ban of a zone, nil if there is none.
func (b *bans) meter(zone string) *banMeter {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.zones[zone]
}

// idle reports whether no zone bans.
func (b *bans) idle() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.zones) == 0
}

// standing returns the ban that a request to a zone meets now, nil if there is none; dry is set
// if it refuses nobody. Operators ban as well, so that the zone need not have a ban of its own. It
// asks no store.
//
// A ban moves from here to the list while requests look: it is let go here once the list has it. So
// what is held is always looked at first, and nobody slips through between the two.
func (b *bans) standing(z *zoneMeter, key string, client netip.Addr) (ban *blocklist.Ban, dry bool) {
	zone := z.seen.Name
	if !b.held.any() && !b.list.HasBans(zone) {
		return nil, false
	}
	now := b.now()
	for text := key; text != ""; text = z.ban.around(text) {
		if h, ok := b.held.find(subject{zone, text}); ok && !h.ban.Over(now) && later(h.ban, ban) {
			ban, dry = h.ban, h.dry || z.shadow
		}
		if !b.list.HasBans(zone) {
			continue
		}
		if name, ok := b.name(text); ok {
			if found, ok := b.list.Banned(zone, name, now); ok && later(found, ban) {
				ban, dry = found, z.shadow
			}
		}
	}
	mode := b.list.Mode()
	if ban == nil || mode == blocklist.Off || z.spares(b, client) {
		return nil, false
	}
	dry = dry || mode == blocklist.DryRun
	if dry && mode == blocklist.DryRun {
		return ban, dry // of what refuses nobody no attempt can be told from the rest
	}
	if moved := z.ban.attempt(ban, now); moved != nil {
		b.hold(heldBan{subject: subject{zone, key}, ban: moved, dry: dry})
		return moved, dry
	}
	return ban, dry
}

// later reports whether a ban ends after another, which may be none.
func later(b, other *blocklist.Ban) bool { return other == nil || b.Until.After(other.Until) }

// spares reports whether a client of the zone is never refused for a ban.
func (z *zoneMeter) spares(b *bans, client netip.Addr) bool {
	if z.ban != nil {
		return z.ban.spares(client)
	}
	return client.IsValid() && b.protected(client)
}

// attempt returns the ban as it stands after an attempt, nil if that changes nothing.
func (m *banMeter) attempt(ban *blocklist.Ban, now time.Time) *blocklist.Ban {
	if m == nil || ban.Origin != m.zone {
		return nil
	}
	until, moved := m.term.roll(ban, now)
	if !moved {
		return nil
	}
	c := *ban
	c.Until, c.Forget = until, m.term.forget(until, ban.Count)
	return &c
}

// over is told that a key has done what its zone bans for too often. The ban holds here at once;
// the rest is done by run.
func (b *bans) over(a limiter.Ask, _ limiter.Result) {
	m := b.meter(a.Limit.Zone)
	if m == nil {
		return
	}
	events := a.Limit.Events
	b.convict(m, conviction{key: a.Key, reason: m.conf.reason(events), hits: events, limit: a.Limit},
		b.witnesses.last(subject{m.zone, a.Key}))
}

// A conviction is why a key is to be banned.
type conviction struct {
	key, reason string
	hits        int64
	limit       *limiter.Limit // what led to it, and is to be forgotten; may be nil
}

// convict bans a key, unless it is banned already.
func (b *bans) convict(m *banMeter, c conviction, seen evidence) {
	now := b.now()
	name, _ := b.name(c.key)
	id, ok := m.id(name, &seen)
	if !ok {
		return
	}
	last := b.last(subject{m.zone, c.key}, id)
	if last != nil && !last.Over(now) {
		return
	}
	ban, ok := m.ban(id, c, last, &seen, now)
	if !ok {
		return
	}
	if around := m.around(c.key); around != "" {
		ban.Parent, _ = b.name(around)
	}
	b.hold(heldBan{subject: subject{m.zone, c.key}, ban: ban, dry: m.dry, limit: c.limit})
	b.began(observe.Begun{Zone: m.seen, Ban: ban, Dry: m.dry, Client: seen.client, Key: c.key, LogKey: m.logKey})
}

// last returns the last ban of a subject that is remembered, nil if there is none.
func (b *bans) last(who subject, id blocklist.BanID) (last *blocklist.Ban) {
	if h, ok := b.held.find(who); ok {
		last = h.ban
	}
	if found, ok := b.list.Ban(id); ok && later(found, last) {
		last = found
	}
	return last
}

// hold keeps a ban here and wakes the one that shares it.
func (b *bans) hold(h heldBan) {
	b.held.put(h)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// banRound is how often bans are looked after that wait for something.
const banRound = time.Second

// run shares bans until ctx is done, and then once more.
func (b *bans) run(ctx context.Context) {
	if b.idle() && !b.held.any() {
		return
	}
	b.lint()
	var work sync.WaitGroup
	work.Go(func() { b.counter.Run(ctx) })
	tick := time.NewTicker(banRound)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.wake:
			b.round(ctx)
		case <-tick.C:
			b.round(ctx)
		}
	}
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), banRound)
	defer cancel()
	b.round(last)
}

// lint warns of bans that nobody enforces.
func (b *bans) lint() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for zone, m := range b.zones {
		if m.scope != blocklist.ScopeZone && !b.gated() {
			b.logger.Warn("bans of a site, or for all, are enforced by a block handler, and there is none",
				zap.String("zone", zone), zap.Stringer("scope", m.scope))
		}
	}
}

// round does what there is to do about the bans that are held.
func (b *bans) round(ctx context.Context) {
	now := b.now()
	b.held.forget(now)
	for _, h := range b.held.unreset() {
		// What led to the ban is not to lead to the next one. If the store is away it ends
		// with its window.
		_ = b.counter.Reset(ctx, h.limit, h.key)
	}
	b.share(ctx)
	b.settle(now)
}

// maxShared is the most bans that are shared in one change.
const maxShared = 1000

// share puts the bans that are not on the list there. What cannot be told now waits.
func (b *bans) share(ctx context.Context) {
	for {
		waiting := b.held.unshared(maxShared, b.name)
		if len(waiting) == 0 {
			b.shared(nil)
			return
		}
		err := b.apply(ctx, waiting)
		for _, h := range waiting {
			if err == nil || !errors.Is(err, blocklist.ErrRefused) {
				break
			}
			// One that is refused must not hold up the others.
			if one := b.apply(ctx, []heldBan{h}); errors.Is(one, blocklist.ErrRefused) {
				b.logger.Warn("ban not made", zap.String("zone", h.zone), zap.String("ban", h.ban.Key), zap.Error(one))
				b.held.remove(h)
			} else if one != nil {
				b.shared(one)
				return
			}
		}
		if err != nil && !errors.Is(err, blocklist.ErrRefused) {
			b.shared(err)
			return
		}
	}
}

// shared logs that bans cannot be put on the list, and that they can again.
func (b *bans) shared(err error) {
	switch {
	case err != nil && !b.alone:
		b.logger.Warn("bans cannot be put on the shared list: they hold on this instance alone, and are lost if it ends before they can", zap.Error(err))
	case err == nil && b.alone:
		b.logger.Info("bans can be put on the shared list again")
	}
	b.alone = err != nil
}

// apply puts bans on the list in one change.
func (b *bans) apply(ctx context.Context, all []heldBan) error {
	change := blocklist.Change{By: "weir", Auto: true}
	for _, h := range all {
		change.Ban = append(change.Ban, *h.ban)
	}
	version, dangers, err := b.list.Apply(ctx, change, netip.Addr{}, false)
	switch {
	case len(dangers) > 0:
		return blocklist.Refuse(errors.New(dangers[0].Why))
	case err == nil:
		b.held.share(all, max(version, 1))
	}
	return err
}

// settle lets go of bans that the list has, and bans the networks around those of which there
// are enough neighbours now.
func (b *bans) settle(now time.Time) {
	version := b.list.Content().Version
	neighbours := b.held.neighbours(now)
	for _, h := range b.held.all() {
		// Somebody may have lifted it meanwhile: what counts is that the list knew of it.
		if h.version != 0 && version >= h.version {
			b.held.remove(h)
		}
		b.rollUp(h, neighbours[h.neighbourhood()], now)
	}
}

// rollUp bans the network around a ban if it has enough neighbours, of which n, the ban included
// if that is the case, are on no list. Of bans that several nodes make at once the last one on the
// list sees all the others.
func (b *bans) rollUp(h heldBan, n int, now time.Time) {
	m := b.meter(h.zone)
	if m == nil || m.conf.Rollup == nil || h.ban.Parent == "" || h.ban.Over(now) {
		return
	}
	if !h.dry {
		n += b.list.Children(h.ban.Scope, h.ban.Parent, now)
	}
	if n < m.conf.Rollup.Neighbours {
		return
	}
	e := &h.ban.Evidence
	b.convict(m, conviction{key: m.around(h.key), reason: fmt.Sprintf("%d neighbours banned", n), hits: int64(n)},
		evidence{host: e.Host, path: e.Path, agent: e.UserAgent, status: e.Status, at: e.At})
}
