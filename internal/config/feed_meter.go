package config

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/headers"
	"github.com/weirhq/caddy-weir/limiter/people"
)

// A feedMeter is a Feed that is built: it says which budget a request spends and how much.
type feedMeter struct {
	conf   *Feed // with its defaults
	rules  feed.Rules
	names  *feed.Key
	book   *feed.Book
	zone   string
	shadow bool
	seen   *observe.Feeds
	single [2]limiter.Limit // by class
	scaled sync.Map         // of *[2]limiter.Limit, by the factor
	slow   slowLimits
	bits   prefixBits
	age    atomic.Pointer[ageText]
	stale  *staleMeter // nil if no copies are kept

	crowds    *crowds
	allowance *people.Allowance // nil if all are allowed the same
	user      template

	aggregators *aggregatorMeter // nil if there are none
}

// A bookKey names the book of a zone in the pool: what is known of feeds and readers
// survives a reload.
type bookKey struct{ zone string }

type pooledBook struct{ *feed.Book }

// Destruct implements [caddy.Destructor].
func (pooledBook) Destruct() error { return nil }

// build makes a valid feed ready; nil if there is none. z is its zone, built as m.
func (f *Feed) build(z *Zone, m *zoneMeter, s *Shared) (*feedMeter, error) {
	if f == nil {
		return nil, nil
	}
	c := f.resolved()
	fm := &feedMeter{conf: c, rules: c.rules(), zone: m.seen.Name, shadow: m.shadow, seen: observe.NewFeeds(m.seen.Name), crowds: &s.crowds}
	fm.single = fm.limits(1)
	fm.slow = fm.slowLimits()
	fm.bits = z.bits(&s.app)
	fm.rules.Name = s.hasher.Append
	var err error
	if fm.names, err = feed.NewKey(c.Parameters, c.Aliases); err != nil {
		return nil, err
	}
	book, err := s.holds.take(bookKey{fm.zone}, func() (caddy.Destructor, error) {
		return pooledBook{feed.NewBook()}, nil
	})
	if err != nil {
		return nil, err
	}
	fm.book = book.(pooledBook).Book
	if fm.aggregators, err = c.Aggregators.build(fm.zone, s); err != nil {
		return nil, err
	}
	if fm.stale, err = c.buildStale(fm, s); err != nil {
		return nil, err
	}
	if c.People != nil {
		if fm.allowance, err = c.People.allowance(Now()); err != nil {
			return nil, err
		}
		if fm.user, err = parseTemplate(c.People.User, z.bits(&s.app)); err != nil {
			return nil, err
		}
	}
	s.feeds.add(fm)
	return fm, nil
}

func (f *feedMeter) limits(factor int) (both [2]limiter.Limit) {
	both[feed.Conditional] = f.conf.Conditional.limit(f.zone, feedIndexes[feed.Conditional], factor)
	both[feed.Unconditional] = f.conf.Unconditional.limit(f.zone, feedIndexes[feed.Unconditional], factor)
	for i := range both {
		both[i].Shadow, both[i].Settled = f.shadow, true
	}
	return both
}

// limit returns the budget of a class, that many times as high.
func (f *feedMeter) limit(class feed.Class, factor int) *limiter.Limit {
	if factor <= 1 {
		return &f.single[class]
	}
	if kept, ok := f.scaled.Load(factor); ok {
		return &kept.(*[2]limiter.Limit)[class]
	}
	made := f.limits(factor)
	kept, _ := f.scaled.LoadOrStore(factor, &made)
	return &kept.(*[2]limiter.Limit)[class]
}

// readers is how many seem to be behind the owner of the part's budgets, and by what factor those
// are multiplied. The fetchers of an aggregator need not know what the others received.
func (f *feedMeter) readers(p *part, feed []byte, r *http.Request, client netip.Addr) (people, factor int) {
	if p.aggregator == nil {
		people = f.crowd(client)
		return people, people
	}
	factor = f.aggregators.factor(p.aggregator, feed, r.UserAgent())
	return max(factor, 2), factor
}

// crowd is how many readers seem to be behind a client's address.
func (f *feedMeter) crowd(client netip.Addr) int {
	if f.allowance == nil || !client.IsValid() {
		return 1
	}
	return f.allowance.Factor(client, f.crowds.seen(client), Now())
}

// name gives a part the key that stands in d.key.
func (d *Reading) name(p *part, r *http.Request, client netip.Addr) {
	if p.zone.feed != nil {
		p.zone.feed.name(d, p, r, client)
		return
	}
	p.key = string(d.key)
}

// name gives the part its key, and that of its budgets: their owner, who is an aggregator or the
// key itself, then the feed's name and how long that is, so that no two pairs of owner and feed are
// alike.
func (f *feedMeter) name(d *Reading, p *part, r *http.Request, client netip.Addr) {
	if p.aggregator = f.aggregators.identify(r, client); p.aggregator != nil {
		p.key = string(d.key)
		d.key = append(append(d.key[:0], aggregatorMark...), p.aggregator.Name...)
	}
	n := len(d.key)
	d.key = f.names.AppendTo(d.key, r.Host, r.URL.Path, r.URL.RawQuery)
	size := len(d.key) - n
	d.key = append(d.key, byte(size>>8), byte(size))
	p.budget = string(d.key)
	p.owner = p.budget[:n]
	if p.aggregator == nil {
		p.key = p.owner
	}
}

// enter asks the book about a request, and appends what it asks of its budget. The budget's key must
// still stand in d.key.
func (f *feedMeter) enter(d *Reading, p *part, r *http.Request, client netip.Addr) {
	name := d.key[len(p.owner) : len(d.key)-2]
	people, factor := f.readers(p, name, r, client)
	p.visit = f.book.Enter(&feed.Request{
		Feed:   name,
		Reader: feed.Reader{Key: p.owner, Name: p.aggregatorName(), People: people},
		HTTP:   r, Now: Now(), Extra: f.names.Extra(r.URL.RawQuery),
	}, &f.rules)
	p.entered = true
	if p.visit.Early() {
		f.seen.Early()
	}
	if !p.visit.Quiet().IsZero() && !f.shadow {
		p.fate = quieted
		return
	}
	d.asks = append(d.asks, limiter.Ask{Limit: f.slowed(&p.visit, f.limit(p.visit.Class(), factor)), Key: p.budget, Cost: p.visit.Cost()})
}

// isQuiet is the Reason of a request that came when the feed wants none.
const isQuiet = "The feed rests at this hour."

// quiet refuses a request that comes in the quiet hours of its feed, and reports whether it
// did. No store is asked, and nothing is charged.
func (m *Meter) quiet(d *Reading) bool {
	for i := range d.parts {
		p := &d.parts[i]
		if p.fate != quieted {
			continue
		}
		d.blamed, d.Reason = i, isQuiet
		d.Wait = p.zone.feed.wait(p, 0, m.jitter)
		d.Decision = limiter.Decision{Blamed: -1, Nearest: -1}
		return true
	}
	return false
}

// lengthen returns how long a refused request is told to wait: the limit's wait, or more if
// the budget of a feed refused it.
func (m *Meter) lengthen(d *Reading, wait time.Duration) time.Duration {
	p := &d.parts[d.blamed]
	if p.entered && d.Blamed == p.from && wait != limiter.Never {
		return p.zone.feed.wait(p, wait, m.jitter)
	}
	return headers.Lengthen(wait, m.jitter)
}

func (f *feedMeter) wait(p *part, limit time.Duration, jitter float64) time.Duration {
	if jitter == 0 {
		jitter = feedJitter
	}
	wait := headers.Lengthen(f.book.Wait(&p.visit, limit, Now(), &f.rules), jitter)
	return min(wait, f.rules.MaxWait)
}

// leave tells the books of feeds that a request was refused, and with which status, 0 if its
// client was not told by us. Retry-After was wait.
func (d *Reading) leave(status int, wait time.Duration) {
	for i := range d.parts {
		p := &d.parts[i]
		if !p.entered {
			continue
		}
		p.entered = false
		p.zone.feed.book.Refused(&p.visit, status != 0 && status != http.StatusNotModified)
		if i == d.blamed && status != 0 {
			p.zone.feed.book.Told(&p.visit, status, wait, Now(), &p.zone.feed.rules)
		}
	}
}

// forgo tells the book of a feed that the part's limits were asked and do not count, and gives back what
// was reserved for nothing.
func (p *part) forgo() {
	if p.entered {
		p.entered = false
		p.zone.feed.book.Refused(&p.visit, false)
	}
}

// An ageText is a Cache-Control for a time.
type ageText struct {
	age  time.Duration
	text string
}

// cacheControl says how long an answer is fresh; empty if nobody knows.
func (f *feedMeter) cacheControl(age time.Duration) string {
	age = age.Truncate(time.Second)
	if age <= 0 {
		return ""
	}
	if known := f.age.Load(); known != nil && known.age == age {
		return known.text
	}
	made := &ageText{age, "max-age=" + strconv.FormatInt(int64(age/time.Second), 10)}
	f.age.Store(made)
	return made.text
}

// Plain reports whether the refused request is a feed reader's, which cannot read a page.
func (d *Reading) Plain() bool {
	return d.blamed >= 0 && d.parts[d.blamed].zone.feed != nil
}
