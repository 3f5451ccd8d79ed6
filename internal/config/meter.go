package config

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/aggregator"
	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/headers"
)

// A Meter is a RateLimit that is built: it turns a request into asks, has them
// answered and tells the observers.
type Meter struct {
	// Status and Message of refusals.
	Status  int
	Message string
	// Headers are the header families that answers carry.
	Headers headers.Style

	zones    []*zoneMeter
	store    limiter.Store
	leasing  bool // whether any zone has an in_flight limit
	leases   lessors
	settlers settlers
	spotter  spotter
	previews []*zoneMeter // those that hold answers for previews
	staling  bool         // whether any zone keeps copies of feeds
	jitter   float64
	denying  bool // refuse what not even the store's stand-in can decide
	guessing bool // the store's stand-in does not count: its answers are no decisions
	logKey   bool
	shared   *Shared
	logger   *zap.Logger
	lost     atomic.Bool // whether it was logged that nobody could decide
	readings sync.Pool   // of *Reading
}

// A Reading is what a meter says of one request. Its room serves one request after
// another: it must be freed, and not be used afterwards.
type Reading struct {
	// Decision is the answer of all zones that apply to the request.
	limiter.Decision
	// Wait is after what time a refused request may pass, lengthened by the jitter that
	// is wanted: [limiter.Never] if no waiting helps, 0 if that is unknown.
	Wait time.Duration
	// Reason is why a request was refused that no limit refused, in one sentence.
	Reason string
	// Status of the refusal, if it is not that of the meter; else 0.
	Status int
	// Leases are the places that an allowed request holds until it is served.
	Leases *Leases

	parts   []part
	asks    []limiter.Ask
	results []limiter.Result
	key     []byte
	blamed  int  // the part that refuses, -1 if none does
	counted bool // whether the results say what was charged

	preview *Preview     // nil if the request is none
	copy    *copies.Copy // what a reader of a feed is given instead of the site's answer
}

// A part is what one zone has to do with a request.
type part struct {
	zone     *zoneMeter
	fate     fate
	key      string
	from, to int            // its asks
	ban      *blocklist.Ban // that the key meets; the fate says whether it refuses

	budget     string                 // the key of the feed's budgets
	owner      string                 // whose they are
	aggregator *aggregator.Aggregator // that the request is of, if it is verified
	visit      feed.Visit
	entered    bool // whether the feed's book waits for what becomes of the visit

	waived  bool // whether its limits do not count, since a copy is given in place of the site's answer
	refused bool // whether they refused the request before it was given one
}

// A fate is what a zone does with a request before any limit is asked.
type fate uint8

const (
	asked fate = iota
	exempted
	rejected // for want of a key
	banned
	quieted // by the quiet hours of a feed
)

// Read decides about a request. An error is a matcher's own, such as 425 for TLS early
// data, and is to be returned to Caddy as it is; there is then no reading.
func (m *Meter) Read(r *http.Request) (*Reading, error) { return m.ReadPreview(r, m.Preview(r)) }

// ReadPreview is Read for a request of which p is known.
func (m *Meter) ReadPreview(r *http.Request, p *Preview) (*Reading, error) {
	d, ok := m.readings.Get().(*Reading)
	if !ok {
		d = new(Reading)
	}
	d.preview = p
	if err := m.collect(d, r); err != nil {
		d.leave(0, 0)
		m.Free(d)
		return nil, err
	}
	switch err := m.decide(d, r); {
	case err != nil:
		m.undecided(d, r)
		if m.lost.CompareAndSwap(false, true) {
			m.logger.Error("no store could decide", zap.Error(err))
		}
		return d, nil
	case m.guessing && d.guessed():
		if m.leasing {
			m.leases.collect(&d.Decision)
		}
		m.undecided(d, r)
		return d, nil
	}
	d.counted = true
	for i := range d.parts {
		m.observe(d, i, r)
	}
	if m.leasing {
		d.Leases = m.leases.collect(&d.Decision)
	}
	if m.staling && !d.Allowed {
		m.relieve(d, r)
	}
	return d, nil
}

// add gives the meter a zone.
func (m *Meter) add(z *zoneMeter, s *Shared) {
	s.known.add(z)
	m.zones = append(m.zones, z)
	m.spotter.add(z, &s.crowds)
	if z.previews != nil {
		m.previews = append(m.previews, z)
	}
	m.staling = m.staling || z.feed != nil && z.feed.stale != nil
}

// guessed reports whether the decision hangs on answers of a stand-in that does not count: some of its
// limits could not be asked, and none that could refuses.
func (d *Reading) guessed() bool {
	some := false
	for i := range d.Results {
		switch r := &d.Results[i]; {
		case r.Origin == limiter.Local:
			some = true
		case !r.Allowed && !d.Asks[i].Limit.Shadow:
			return false
		}
	}
	return some
}

// Free takes a reading back.
func (m *Meter) Free(d *Reading) {
	clear(d.parts)
	clear(d.asks)
	*d = Reading{parts: d.parts[:0], asks: d.asks[:0], results: d.results[:0], key: d.key[:0]}
	m.readings.Put(d)
}

// collect finds the zones that apply to a request and what it asks of each.
func (m *Meter) collect(d *Reading, r *http.Request) error {
	client := ClientIP(r)
	m.shared.LintProxies(r)
	d.blamed = -1
	for _, z := range m.zones {
		if z.previews != nil && !d.preview.of(z) {
			continue
		}
		applies, exempt, err := z.applies(r, client)
		if err != nil {
			return err
		}
		if !applies {
			continue
		}
		p := part{zone: z, from: len(d.asks)}
		if exempt {
			p.fate = exempted
		} else {
			var found keyFate
			d.key, found = z.key.appendTo(d.key[:0], r, client)
			switch found {
			case keySkip:
				continue
			case keyReject:
				p.fate = rejected
			default:
				d.name(&p, r, client)
				m.bar(&p, client)
				if z.feed != nil && p.fate == asked {
					z.feed.enter(d, &p, r, client)
				}
				d.asks = z.ask(d.asks, p.key, z.costOf(r, client, m.logger))
			}
		}
		p.to = len(d.asks)
		d.parts = append(d.parts, p)
	}
	return nil
}

// decide has the asks answered, unless a zone rejects the request whatever they say:
// then nothing is charged anywhere.
func (m *Meter) decide(d *Reading, r *http.Request) error {
	for i := range d.parts {
		if d.parts[i].fate == rejected && !d.parts[i].zone.shadow {
			d.blamed, d.Reason = i, noKey
			d.Decision = limiter.Decision{Blamed: -1, Nearest: -1}
			return nil
		}
	}
	if m.barred(d) || m.quiet(d) {
		return nil
	}
	if cap(d.results) < len(d.asks) {
		d.results = make([]limiter.Result, len(d.asks))
	}
	d.results = d.results[:len(d.asks)]
	var err error
	if m.leasing {
		d.Decision, err = m.leases.take(r.Context(), m.store, d.asks, d.results)
	} else {
		err = d.Take(r.Context(), m.store, d.asks, d.results)
	}
	if err != nil || d.Allowed {
		return err
	}
	for i := range d.parts {
		if p := &d.parts[i]; p.from <= d.Blamed && d.Blamed < p.to {
			d.blamed = i
		}
	}
	d.Wait = m.lengthen(d, d.Results[d.Blamed].Wait)
	return nil
}

// What clients are told who are refused, but not by a limit.
const (
	noKey     = "The request does not say whose it is."
	noStore   = "The limit cannot be checked at the moment."
	storeWait = time.Second // an outage may end at any moment
)

// undecided does what is wanted if the store could not decide, and its stand-in cannot or
// only says what it always says: that is never an error of the request. Clients are then told no
// numbers, since nobody knows any.
func (m *Meter) undecided(d *Reading, r *http.Request) {
	d.Allowed, d.Blamed, d.Nearest, d.Wait, d.blamed = true, -1, -1, 0, -1
	for i := range d.parts {
		p := &d.parts[i]
		if p.fate != asked {
			m.observe(d, i, r)
			continue
		}
		if m.denying && !p.zone.shadow && d.Allowed && d.costs(p) {
			d.Allowed, d.blamed = false, i
			d.Wait, d.Reason = headers.Lengthen(storeWait, m.jitter), noStore
		}
		m.tell(d, p, r, observe.StoreError, -1)
	}
}

// costs reports whether a part asks for anything: what costs nothing is never refused.
func (d *Reading) costs(p *part) bool {
	for _, a := range d.asks[p.from:p.to] {
		if a.Cost > 0 {
			return true
		}
	}
	return false
}

// observe tells the observers what one zone said. Zones that would have let a request
// pass which another refuses have nothing to say.
func (m *Meter) observe(d *Reading, i int, r *http.Request) {
	p := &d.parts[i]
	if p.fate == exempted {
		m.tell(d, p, r, observe.Exempt, -1)
		return
	}
	if p.ban != nil {
		m.tellBan(d, p, r)
		if p.fate == banned {
			return
		}
	}
	kind, ask := observe.Allowed, -1
	if p.fate == rejected || p.fate == quieted {
		kind = observe.Refused
	} else if ask = d.refusal(p); ask >= 0 {
		kind = observe.Refused
	}
	switch {
	case kind == observe.Refused && p.zone.shadow:
		kind = observe.DryRefused
	case kind == observe.Allowed && !d.Allowed:
		return
	}
	m.tell(d, p, r, kind, ask)
}

// refusal returns the part's refused ask with the longest wait, -1 if there is none.
func (d *Reading) refusal(p *part) int {
	longest := -1
	if d.Results == nil {
		return longest
	}
	for i := p.from; i < p.to; i++ {
		if !d.Results[i].Allowed && (longest < 0 || d.Results[i].Wait > d.Results[longest].Wait) {
			longest = i
		}
	}
	return longest
}

func (m *Meter) tell(d *Reading, p *part, r *http.Request, kind observe.Kind, ask int) {
	o := observe.Outcome{Request: r, Kind: kind, Zone: p.zone.seen, Key: p.key, LogKey: m.logKey, Hasher: m.shared.hasher}
	o.Blamed = d.blamed >= 0 && p == &d.parts[d.blamed]
	switch {
	case ask >= 0:
		o.Limit, o.Result = d.Asks[ask].Limit, d.Results[ask]
		if o.Result.Wait == limiter.Never {
			p.zone.tellNever(&d.Asks[ask], m.logger)
		}
	case kind == observe.Refused || kind == observe.DryRefused:
		o.Result.Wait = limiter.Never
	}
	m.shared.Observers.Observe(o)
}
