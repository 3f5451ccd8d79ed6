package config

import (
	"cmp"
	"hash/fnv"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/people"
)

// A banMeter is a Ban that is built: it counts what its zone's requests came to, and makes bans
// of what was too much.
type banMeter struct {
	conf    *Ban // with its defaults
	zone    string
	counts  tallied
	term    term
	scope   blocklist.ScopeKind
	address bool // whether keys are clients' addresses
	dry     bool
	logKey  bool

	book      *bans
	seen      *observe.Bans
	allowance *people.Allowance // nil if all are allowed the same
	user      template
	limits    sync.Map // of *limiter.Limit, by the factor
}

// build makes a valid ban ready to count; nil if there is none. z is its zone, built as m.
func (b *Ban) build(z *Zone, m *zoneMeter, s *Shared, logKey bool) (*banMeter, error) {
	if b == nil {
		return nil, nil
	}
	c := b.resolved()
	bm := &banMeter{
		conf: c, zone: m.seen.Name, term: c.term(), address: m.key.isClient(),
		dry: c.DryRun || m.shadow, logKey: logKey,
		book: s.bans, seen: observe.NewBans(m.seen.Name),
	}
	var err error
	if bm.counts, err = parseCount(c.Count); err != nil {
		return nil, err
	}
	for kind, word := range map[blocklist.ScopeKind]string{
		blocklist.ScopeZone: "zone", blocklist.ScopeSite: "site", blocklist.ScopeAll: "all",
	} {
		if word == c.Scope {
			bm.scope = kind
		}
	}
	if c.People != nil {
		if bm.allowance, err = c.People.allowance(s.bans.now()); err != nil {
			return nil, err
		}
		if bm.user, err = parseTemplate(c.People.User, z.bits(&s.app)); err != nil {
			return nil, err
		}
	}
	s.bans.add(bm)
	_, err = s.list.open()
	return bm, err
}

// follows reports whether the ban wants to know what became of requests that passed.
func (m *banMeter) follows() bool {
	return m != nil && (m.counts.requests || m.counts.answers() || m.dry && m.counts.refusals)
}

// served counts a request that passed and has been answered.
func (m *banMeter) served(key string, r *http.Request, seen *Response, refused bool) {
	switch {
	case m.counts.requests, m.counts.refusals && refused:
	case m.counts.answer(seen.Status) && !wasRefused(r):
	default:
		return
	}
	m.count(key, r, seen.Status)
}

// turnedAway counts a request that did not pass. ours is set if a limit of the zone refused it.
func (m *banMeter) turnedAway(key string, r *http.Request, status int, ours bool) {
	if m.counts.requests || ours && m.counts.refusals {
		m.count(key, r, status)
	}
}

// count counts one request of a key. It waits for nothing.
func (m *banMeter) count(key string, r *http.Request, status int) {
	client := ClientIP(r)
	if m.spares(client) {
		return
	}
	m.book.witness(subject{m.zone, key}, r, client, status)
	ask := [1]limiter.Ask{{Limit: m.limit(client), Key: key, Cost: 1}}
	m.book.counter.Count(ask[:])
}

// spares reports whether a client is never banned, and so not counted either: one without an
// address stands for whoever is behind its socket.
func (m *banMeter) spares(client netip.Addr) bool {
	if !client.IsValid() || m.book.protected(client) {
		return true
	}
	return !m.conf.PrivateRanges && (client.IsPrivate() || client.IsLinkLocalUnicast())
}

// limit returns what the client's key is allowed.
func (m *banMeter) limit(client netip.Addr) *limiter.Limit {
	factor := 1
	if m.allowance != nil {
		factor = m.allowance.Factor(client, m.book.crowds.seen(client), m.book.now())
	}
	if l, ok := m.limits.Load(factor); ok {
		return l.(*limiter.Limit)
	}
	l := m.conf.limit(m.zone, factor)
	kept, _ := m.limits.LoadOrStore(factor, &l)
	return kept.(*limiter.Limit)
}

// id returns what tells a ban of this zone from others; ok is false if its site is not known.
func (m *banMeter) id(name string, e *evidence) (id blocklist.BanID, ok bool) {
	id = blocklist.BanID{Scope: blocklist.Scope{Kind: m.scope}, Origin: m.zone, Key: name}
	switch m.scope {
	case blocklist.ScopeZone:
		id.Scope.Name = m.zone
	case blocklist.ScopeSite:
		id.Scope.Name = hostOf(e.host)
		return id, id.Scope.Name != ""
	}
	return id, true
}

// ban returns the ban that begins now. last is the one before it, nil if that was none. ok is
// false for a key that no client has.
func (m *banMeter) ban(id blocklist.BanID, c conviction, last *blocklist.Ban, e *evidence, now time.Time) (b *blocklist.Ban, ok bool) {
	n := m.term.count(last, now)
	until := now.Add(m.term.length(n, chance(cmp.Or(id.Key, c.key), n)))
	b = &blocklist.Ban{
		Zone: m.zone, Scope: id.Scope, Key: id.Key, Origin: id.Origin,
		Since: now, Until: until, Forget: m.term.forget(until, n), Count: n,
		Evidence: e.public(c.reason, c.hits, m.logKey),
	}
	if !m.address {
		return b, true
	}
	network, err := blocklist.ParsePrefix(c.key)
	if err != nil {
		return nil, false
	}
	b.Bits = network.Bits()
	return b, true
}

// around returns the text of the network around the key's that bans roll up to; empty if there
// is none.
func (m *banMeter) around(key string) string {
	if m == nil || m.conf.Rollup == nil {
		return ""
	}
	network, err := blocklist.ParsePrefix(key)
	if err != nil {
		return ""
	}
	bits := m.conf.Rollup.around(network.Addr().Is4(), network.Bits())
	if bits == 0 {
		return ""
	}
	return string(prefixBits{bits, bits}.appendNetwork(nil, network.Addr()))
}

// chance is a number from 0 to 1 that all nodes find alike for the n-th ban of a key.
func chance(key string, n int) float64 {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt([]byte(key), int64(n), 10))
	// The last bits of short texts are the ones that differ.
	return float64(h.Sum64()*0x9e3779b97f4a7c15>>11) / float64(math.MaxUint64>>11)
}
