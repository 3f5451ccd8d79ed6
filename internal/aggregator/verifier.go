package aggregator

import (
	"net/netip"
	"sync"
	"time"
)

// How long answers of the DNS count. Those of records are not heeded: few resolvers tell.
const (
	// confirmedFor is after what time a confirmed address is looked up again, and keptFor
	// how long it stays confirmed if that cannot be done: an outage of the DNS takes away
	// nobody's rights for a day.
	confirmedFor = 24 * time.Hour
	keptFor      = 48 * time.Hour
	// refutedFor is how long an address that is not theirs is not looked up again.
	refutedFor = time.Hour
	// failedFor is the same for one that could not be looked up.
	failedFor = 5 * time.Minute
)

const (
	// mostAnswers is how many addresses are remembered. At 60 look-ups a minute a flood of
	// forgers fills a third of it: their answers are forgotten after an hour.
	mostAnswers = 10_000
	// mostWaiting is how many look-ups wait for their turn.
	mostWaiting = 256
)

// A Verifier finds out, beside the requests, whether addresses are those of aggregators: an
// address is if its name lies in one of their domains, and that name leads back to it. Nobody
// waits for it: who is not known is looked up, and is Unknown until that is done.
//
// It is bounded in all it does: at most 10,000 answers are kept, 256 look-ups wait, of these one
// of each network (IPv4 /24, IPv6 /48), so that who has many addresses does not crowd out the
// others; and no more are made than Options say. What does not fit is asked for again by the next
// request. It is safe for concurrent use; Run must be running.
type Verifier struct {
	o Options

	mu      sync.RWMutex
	answers map[subject]answer
	waiting map[netip.Prefix]bool

	fresh, again chan subject  // look-ups to be made; again those of confirmed addresses
	turn         chan struct{} // held by the one Run that works
	failing      bool          // whether the last look-up failed
}

// A subject is an address that may be in one of some domains.
type subject struct {
	client  netip.Addr
	domains Domains
}

// An answer is what is known of a subject. The zero value is nothing.
type answer struct {
	verdict Verdict
	until   time.Time // the verdict counts
	next    time.Time // it is looked up again, if somebody asks
}

// NewVerifier returns a verifier that knows nobody yet.
func NewVerifier(o Options) *Verifier {
	return &Verifier{
		o:       o.withDefaults(),
		answers: make(map[subject]answer),
		waiting: make(map[netip.Prefix]bool),
		fresh:   make(chan subject, mostWaiting),
		again:   make(chan subject, mostWaiting),
		turn:    make(chan struct{}, 1),
	}
}

// Verify says what is known of an address that claims to be in one of these domains.
func (v *Verifier) Verify(client netip.Addr, domains Domains, now time.Time) Verdict {
	who := subject{client, domains}
	v.mu.RLock()
	a := v.answers[who]
	v.mu.RUnlock()
	if !now.Before(a.next) {
		v.ask(who, a.at(now))
	}
	return a.at(now)
}

// at is the verdict as it counts now.
func (a answer) at(now time.Time) Verdict {
	if now.Before(a.until) {
		return a.verdict
	}
	return Unknown
}

// ask has a subject looked up, unless its network waits for that already or too many do.
func (v *Verifier) ask(who subject, known Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	near := network(who.client)
	if v.waiting[near] {
		return
	}
	queue := v.fresh
	if known == Verified {
		queue = v.again // a flood of forgers must not keep these from being confirmed
	}
	select {
	case queue <- who:
		v.waiting[near] = true
	default:
	}
}

// network is the one around an address that waits together.
func network(a netip.Addr) netip.Prefix {
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits)
	return p
}

// learn keeps what came of a look-up. An error is one of the DNS, which says nothing about
// the subject.
func (v *Verifier) learn(who subject, confirmed bool, err error) {
	now := v.o.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.answers[who]
	switch {
	case err != nil:
		a.next = now.Add(failedFor)
	case confirmed:
		a = answer{Verified, now.Add(keptFor), now.Add(confirmedFor)}
	default:
		a = answer{Forged, now.Add(refutedFor), now.Add(refutedFor)}
	}
	makeRoom(v.answers, mostAnswers, func(a answer) bool { return !now.Before(a.until) && !now.Before(a.next) })
	v.answers[who] = a
}

// done lets the network of a subject ask again.
func (v *Verifier) done(who subject) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.waiting, network(who.client))
}
