package week

import (
	"fmt"
	"net/http"
	"time"
)

// Interval is the feed's own, which its <ttl> names and the zone's default wants. A tenth of it may
// be missing.
const Interval = time.Hour

// A Kind is a kind of reader: who uses it, how it asks, and what it makes of the answers. The
// zero value of a field is the plain case that its comment names first.
type Kind struct {
	Name string
	// Source says where its behaviour is told of.
	Source string
	// Agent is its user agent; %d stands for the number of its subscribers.
	Agent string
	// Clients is how many there are of it where the feed has 10,000 subscribers, and Each how
	// many of those read with one: 0 for crawlers and the like, which are nobody's.
	Clients, Each int
	// Addresses that one client asks from in turn. Default: 1.
	Addresses int

	// Every is how often it asks: each client draws its own time between these two.
	Every [2]time.Duration
	// Awake are the hours of the day in which its device is on. Default: always.
	Awake [2]int
	// Shots are the requests of one poll. Default: one GET.
	Shots []Shot
	// Shows is what it shows of what it has. Default: nothing.
	Shows Shows
	// Whole is how often it shows nothing on purpose, to have the feed anew. Default: never.
	Whole time.Duration
	// Plain is set if it takes no gzip.
	Plain bool

	// Heeds is the longest max-age of an answer that it waits for, and TTL is set if it waits as
	// long as <ttl> says. Default: it knows neither.
	Heeds time.Duration
	TTL   bool
	// Refused is what it does when it is refused. Default: it asks again as if nothing were.
	Refused Reaction
}

// A Shot is one request of a poll.
type Shot struct {
	Method string
	// Gap is how long after the one before.
	Gap time.Duration
}

// Polls of more than one request.
var (
	fourAtOnce = []Shot{{http.MethodGet, 0}, {http.MethodGet, 300 * time.Millisecond}, {http.MethodGet, 300 * time.Millisecond}, {http.MethodGet, 300 * time.Millisecond}}
	headFirst  = []Shot{{http.MethodHead, 0}, {http.MethodGet, time.Second}}
	justOne    = []Shot{{http.MethodGet, 0}}
	// subscribing is how a new reader begins: it looks at the address, then fetches the feed.
	subscribing = []Shot{{http.MethodGet, 0}, {http.MethodGet, time.Second}}
)

// Shows is what a reader shows of the version that it has.
type Shows int

// What there is to show.
const (
	Nothing  Shows = iota
	Both           // the tag and the date
	Tag            // If-None-Match alone
	Date           // If-Modified-Since alone
	Stale          // a pair from long ago, for ever
	Star           // If-None-Match: *
	Unquoted       // the tag without its quotes
	OwnDate        // when it asked last, instead of what it was told
)

// given reports whether that is what the site gave it.
func (s Shows) given() bool { return s == Both || s == Tag || s == Date }

// A Reaction says how long a reader that was refused waits: told is what Retry-After says, usual
// its interval. gone is set if it never comes back.
type Reaction func(r *reader, told, usual time.Duration) (wait time.Duration, gone bool)

// heeds waits as long as it is told, at most so long; otherwise is for when it is told nothing.
func heeds(longest, otherwise time.Duration) Reaction {
	return func(_ *reader, told, usual time.Duration) (time.Duration, bool) {
		if told == 0 {
			told = otherwise
		}
		return max(min(told, longest), usual), false
	}
}

// between waits some time between the two, whatever it is told.
func between(least, most time.Duration) Reaction {
	return func(r *reader, _, _ time.Duration) (time.Duration, bool) { return r.draw(least, most), false }
}

// forever does not come back.
func forever(_ *reader, _, usual time.Duration) (time.Duration, bool) { return usual, true }

// thrice does something else until it was refused three times in a row, and gives up.
func thrice(first Reaction) Reaction {
	return func(r *reader, told, usual time.Duration) (time.Duration, bool) {
		wait, gone := first(r, told, usual)
		return wait, gone || r.failures >= 3
	}
}

// Manners are what a kind of readers is counted as.
type Manners int

// The manners.
const (
	// Polite readers show what they were given, and ask no more often than the feed wants if
	// they are told how often that is; or they ask for everything once a day at most.
	Polite Manners = iota
	// Hasty readers show what they were given, and ask too often.
	Hasty
	// Careless readers ask for everything more than once a day, or show what nobody gave them.
	Careless
	allManners
)

// String returns the word for readers of such manners.
func (m Manners) String() string { return [allManners]string{"polite", "hasty", "careless"}[m] }

// tenth is what may be missing of an interval.
func tenth(d time.Duration) time.Duration { return d - d/10 }

// Manners returns what the kind is counted as.
func (k *Kind) Manners() Manners {
	often := k.Every[0] < tenth(Interval) && k.Heeds < Interval && !k.TTL
	repeats := len(k.Shots) > 1 && k.Shots[0].Method == k.Shots[1].Method
	switch {
	case !k.Shows.given() && k.Every[0] < tenth(24*time.Hour):
		return Careless
	case k.Shows.given() && (often || repeats):
		return Hasty
	}
	return Polite
}

// clients is how many there are of the kind among so many subscribers.
func (k *Kind) clients(subscribers int) int {
	if k.Each > 1 {
		return k.Clients
	}
	return max(1, (k.Clients*subscribers+5000)/10_000)
}

// agent is what one of them calls itself, among so many subscribers.
func (k *Kind) agent(subscribers int) string {
	if k.Each <= 1 {
		return k.Agent
	}
	return fmt.Sprintf(k.Agent, max(1, k.Each*subscribers/10_000))
}
