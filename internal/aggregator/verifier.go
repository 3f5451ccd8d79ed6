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

// mostAnswers is how many addresses are remembered, and how many networks. At 60 look-ups a minute a flood of
// forgers fills a third of it: their answers are forgotten after an hour.
const mostAnswers = 10_000

// A Verifier finds out, beside the requests, whether addresses are those of aggregators: an
// address is if its name lies in one of their domains, and that name leads back to it. Nobody
// waits for it: who is not known is looked up, and is Unknown until that is done.
//
// It is bounded in all it does: at most 10,000 answers are kept, 256 look-ups wait, of these one
// of each network (IPv4 /24, IPv6 /48) and eight of each range of networks (IPv4 /16, IPv6 /32), so that who has
// many addresses does not crowd out the others; and no more are made than Options say. Addresses in networks
// where one is confirmed wait apart, and go first in three turns of four. What does not fit is asked for again by the next request. It
// is safe for concurrent use; Run must be running.
type Verifier struct {
	o Options

	mu      sync.RWMutex
	answers map[subject]answer
	homes   map[home]time.Time // networks where an address was confirmed, and until when that counts
	queue   queue

	turn    chan struct{} // held by the one Run that works
	failing bool          // whether the last look-up failed
}

// A subject is an address that may be in one of some domains.
type subject struct {
	client  netip.Addr
	domains Domains
}

// A home is a network where a service has an address.
type home struct {
	network netip.Prefix
	domains Domains
}

func (s subject) home() home { return home{network(s.client), s.domains} }

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
		homes:   make(map[home]time.Time),
		queue:   newQueue(),
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
		v.ask(who, a.at(now), now)
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

// ask has a subject looked up, if there is room. A flood of forgers must not keep those from being
// confirmed of whom something is known.
func (v *Verifier) ask(who subject, known Verdict, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue.enter(inquiry{who, known != Verified && !now.Before(v.homes[who.home()])})
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
		makeRoom(v.homes, mostAnswers, func(until time.Time) bool { return !now.Before(until) })
		v.homes[who.home()] = now.Add(keptFor)
		a = answer{Verified, now.Add(keptFor), now.Add(confirmedFor)}
	default:
		a = answer{Forged, now.Add(refutedFor), now.Add(refutedFor)}
	}
	makeRoom(v.answers, mostAnswers, func(a answer) bool { return !now.Before(a.until) && !now.Before(a.next) })
	v.answers[who] = a
}

// done lets what is near an inquiry wait.
func (v *Verifier) done(i inquiry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue.leave(i)
}
