package week

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// joining is one in how many of the readers of one's own subscribes only during the week.
	joining = 30
	// sharing is one in how many of them asks from the address of the one before: mostly a second
	// device of the same person, with the same reader.
	sharing = 10
)

// A reader is one client in one world.
type reader struct {
	*Kind
	index  int // among all
	kind   int // in Kinds
	agent  string
	addrs  []string
	chance *rand.Rand

	usual time.Duration // between polls
	next  time.Time     // when it asks again
	shot  int           // which request of its poll that is
	fresh bool          // it subscribes
	gone  bool

	tag, date string    // what it was given last
	newest    int       // the version it has; -1 for none
	wholeAt   time.Time // when it last asked for everything on purpose
	polled    time.Time // when its last poll began; zero for never
	failures  int       // since the last answer
	barred    time.Time // until when it was told to stay away; zero if it was not
}

// newReader returns a reader as it is when the week begins: it has what there is, save one that
// subscribes later.
func newReader(m member, o Options, known validators) *reader {
	k := &Kinds[m.kind]
	r := &reader{
		Kind: k, index: m.index, kind: m.kind, agent: k.agent(o.Subscribers),
		chance: rand.New(rand.NewPCG(o.Seed, uint64(m.index))),
		tag:    known.tag, date: known.date, wholeAt: Begin,
	}
	home := m.index
	if k.Each == 1 && home%sharing == sharing-1 {
		home--
	}
	for i := range max(1, k.Addresses) {
		r.addrs = append(r.addrs, address(home, i))
	}
	r.usual = r.draw(k.Every[0], k.Every[1])
	r.next = Begin.Add(r.draw(0, r.usual))
	r.wholeAt = Begin.Add(-r.draw(0, k.Whole))
	if k.Each == 1 && r.chance.IntN(joining) == 0 {
		r.fresh, r.newest, r.tag, r.date = true, -1, "", ""
		r.next = Begin.Add(r.draw(0, o.Span))
	}
	r.next = r.awake(r.next)
	return r
}

// address is where a reader asks from: one of 198.18.0.0/16, and for a service's further machines
// one of 198.19.0.0/16. Both are kept for measuring (RFC 2544).
func address(index, machine int) string {
	if machine > 0 {
		return fmt.Sprintf("198.19.%d.%d:40000", machine, index&0xff)
	}
	return fmt.Sprintf("198.18.%d.%d:40000", index>>8&0xff, index&0xff)
}

// draw returns a time between two.
func (r *reader) draw(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(r.chance.Int64N(int64(most-least)))
}

// awake returns when the reader's device is on: at that time, or some minutes after it is switched on.
func (r *reader) awake(t time.Time) time.Time {
	if r.Awake == [2]int{} || r.Awake[0] <= t.Hour() && t.Hour() < r.Awake[1] {
		return t
	}
	midnight := t.Truncate(24 * time.Hour)
	if t.Hour() >= r.Awake[1] {
		midnight = midnight.Add(24 * time.Hour)
	}
	return midnight.Add(time.Duration(r.Awake[0])*time.Hour + r.draw(0, time.Hour))
}

// shots are the requests of the poll that it is at.
func (r *reader) shots() []Shot {
	switch {
	case r.fresh:
		return subscribing
	case r.Shots != nil:
		return r.Shots
	}
	return justOne
}

// request returns what the reader asks with now, and whether it shows what it was given.
func (r *reader) request(now time.Time) (q *http.Request, honest bool) {
	h := http.Header{"User-Agent": {r.agent}, "Accept": {"*/*"}}
	if !r.Plain {
		h["Accept-Encoding"] = []string{"gzip"}
	}
	if r.shot == 0 && r.Whole > 0 && now.Sub(r.wholeAt) >= r.Whole {
		r.wholeAt, r.tag, r.date = now, "", ""
	}
	shows := r.Shows
	if r.fresh {
		shows = Nothing
	}
	if shows == Both || shows == Tag {
		set(h, "If-None-Match", r.tag)
	}
	if shows == Both || shows == Date {
		set(h, "If-Modified-Since", r.date)
	}
	switch shows {
	case Stale:
		set(h, "If-None-Match", `"d5v2kq4zr0ho1a9k"`)
		set(h, "If-Modified-Since", "Fri, 02 May 2025 06:11:52 GMT")
	case Star:
		set(h, "If-None-Match", "*")
	case Unquoted:
		set(h, "If-None-Match", unquoted(r.tag))
	case OwnDate:
		if !r.polled.IsZero() {
			set(h, "If-Modified-Since", r.polled.Format(http.TimeFormat))
		}
	}
	addr := r.addrs[0]
	if len(r.addrs) > 1 {
		addr = r.addrs[r.chance.IntN(len(r.addrs))]
	}
	return newRequest(r.shots()[r.shot].Method, addr, h), shows.given() && (h["If-None-Match"] != nil || h["If-Modified-Since"] != nil)
}

func set(h http.Header, name, value string) {
	if value != "" {
		h[name] = []string{value}
	}
}

func unquoted(tag string) string {
	if len(tag) < 2 {
		return tag
	}
	return tag[1 : len(tag)-1]
}

// turn sends the request that is due, and says when the next one is.
func (r *reader) turn(s *site, b *blog, tell *Count, res *Result) {
	now := r.next
	q, honest := r.request(now)
	a := s.ask(q)
	tell.note(&a, r.fresh && r.Manners() != Careless)
	res.weigh(s.world, r.Manners(), now, &a)
	if r.shot == 0 {
		if early := !r.polled.IsZero() && now.Sub(r.polled) < tenth(Interval); honest && !early {
			tell.PolitePolls++
			if a.refused() {
				tell.PoliteRefused++
			}
		}
		if !r.barred.IsZero() {
			tell.Told++
			if !now.Before(r.barred) {
				tell.Heeded++
			}
		}
		r.polled, r.barred = now, time.Time{}
	}
	r.receive(&a, b, now, tell)
	if shots := r.shots(); r.shot+1 < len(shots) && !a.refused() {
		r.shot++
		r.next = now.Add(shots[r.shot].Gap)
		return
	}
	r.shot, r.fresh = 0, false
	r.next = r.awake(now.Add(r.wait(&a)))
	if a.refused() {
		r.barred = now.Add(a.retryAfter)
		if r.gone {
			tell.GaveUp++
		}
	}
}

// receive keeps what an answer brings.
func (r *reader) receive(a *answer, b *blog, now time.Time, tell *Count) {
	if a.refused() {
		r.failures++
		return
	}
	r.failures = 0
	if a.method == http.MethodHead { // it only looked
		return
	}
	if a.tag != "" {
		r.tag = a.tag
	}
	if a.date != "" {
		r.date = a.date
	}
	if a.status != http.StatusOK {
		return
	}
	version := b.versionOf(a.date)
	for v := r.newest + 1; v <= version && r.newest >= 0; v++ {
		tell.Delays = append(tell.Delays, now.Sub(b.published[v]))
	}
	r.newest = max(r.newest, version)
}

// wait is how long the reader waits after the last answer of a poll. A clock is never exact.
func (r *reader) wait(a *answer) (wait time.Duration) {
	usual := r.usual + r.draw(0, r.usual/50)
	if a.refused() {
		if r.Refused == nil {
			return usual
		}
		wait, r.gone = r.Refused(r, a.retryAfter, usual)
		return wait
	}
	if r.TTL {
		usual = max(usual, Interval)
	}
	return max(usual, min(a.maxAge, r.Heeds))
}

// misses is how many versions the reader does not have that are a day old at the end.
func (r *reader) misses(b *blog, end time.Time) (n int) {
	if r.newest < 0 {
		return 0
	}
	for _, then := range b.published[r.newest+1:] {
		if end.Sub(then) >= 24*time.Hour {
			n++
		}
	}
	return n
}
