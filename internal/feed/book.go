package feed

import (
	"hash/maphash"
	"net/http"
	"sync"
	"time"
)

const (
	// mostReaders and mostFeeds are how many of them a book remembers.
	mostReaders = 100_000
	mostFeeds   = 1000
)

// A Book remembers feeds and their readers, in this process alone: at most 100,000 pairs of
// reader and feed, and 1,000 feeds. Those that have not been seen for longest are forgotten
// first. It is safe for concurrent use.
type Book struct {
	seed maphash.Seed

	mu      sync.Mutex
	feeds   generations[state]
	readers generations[record]
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{
		seed:    maphash.MakeSeed(),
		feeds:   newGenerations[state](mostFeeds),
		readers: newGenerations[record](mostReaders),
	}
}

// A Visit is one request as a book sees it, from Enter to either Served or Refused.
type Visit struct {
	class   Class
	proof   proof
	cost    int64
	grace   grace
	quiet   time.Time // until when only polite requests pass; zero if this one may
	at      time.Time // when it came
	version uint64    // the current one then
	tag     string    // the validator that proves what it proves; empty for a date
	head    bool
	other   bool // neither GET nor HEAD
	hash    uint64
	feed    uint64
	record  *record
	before  time.Time // of the refetch or the news that this one follows
	people  uint16
	agent   uint32 // tells agents apart
	paired  bool   // whether it follows a HEAD, and both are as one
	slower  int
	early   bool // whether it came before its reader was told to
}

// Class is whose budget of the two the visit spends.
func (v *Visit) Class() Class { return v.class }

// Cost is how much of it, at most Full. 0 is what passes whatever is left.
func (v *Visit) Cost() int64 { return v.cost }

// Quiet is until when the feed wants no requests but polite ones, if this one is none. Zero
// if it may pass.
func (v *Visit) Quiet() time.Time { return v.quiet }

// Enter says what a request is and what it costs, and reserves what it may have for nothing.
// Served or Refused must follow.
func (b *Book) Enter(r *Request, rules *Rules) Visit {
	v := Visit{
		at: r.Now, head: r.HTTP.Method == http.MethodHead, other: r.HTTP.Method != http.MethodGet && r.HTTP.Method != http.MethodHead,
		hash: b.hashRequest(r.HTTP), feed: maphash.Bytes(b.seed, r.Feed), people: r.Reader.people(),
		agent: uint32(maphash.String(b.seed, agentOf(r.HTTP.Header))),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.feeds.get(v.feed)
	c := b.reader(v.feed, r)
	v.record, v.version = c, f.current()
	v.proof, v.tag = f.judge(r.HTTP.Header, r.Now)
	v.class = v.classify(f, c)
	v.cost = Full
	if v.head && v.class == Unconditional {
		v.cost = Slight
	}
	v.grace = c.excuse(&v, r, rules, f)
	if v.grace != noGrace {
		v.cost = 0
	}
	v.pair(c, r.Now)
	if f != nil && !rules.Deaf && v.grace != joining && !v.polite(r.HTTP) {
		v.quiet = f.hints.QuietUntil(r.Now)
	}
	c.manners.arrive(&v, r, rules)
	return v
}

// reader returns the record of the request's reader.
func (b *Book) reader(feed uint64, r *Request) *record {
	key := maphash.String(b.seed, r.Reader.Key) ^ feed*0x9e3779b97f4a7c15
	c := b.readers.get(key)
	if c == nil {
		c = &record{first: r.Now}
		b.readers.put(key, c)
	}
	return c
}

// classify says whose budget the request spends. A feed without validators gives its readers
// none to send, and those who ask for it are as polite as they can be.
func (v *Visit) classify(f *state, c *record) Class {
	switch {
	case v.other:
		return Unconditional
	case f != nil && f.bare && f.empty():
		return Conditional
	case !v.proof.honest():
		return Unconditional
	case v.proof == currentProof && c.blunt && !v.head:
		return Unconditional
	case v.proof == oldProof && c.has(v.version, v.wholes()) && !v.head:
		return Unconditional // it has the new one, and does not show it
	}
	return Conditional
}

// pair makes a HEAD and the GET that follows it cost as much as one of them.
func (v *Visit) pair(c *record, now time.Time) {
	switch {
	case v.other:
	case v.head:
		if v.grace == noGrace {
			c.head, c.headCost, c.headClass = now, v.cost, v.class
		}
	case now.Sub(c.head) < headSpan && c.headClass == v.class && v.cost > 0:
		v.paired = true
		v.cost -= min(c.headCost, v.cost)
		c.head = time.Time{}
	}
}

// polite reports whether a request costs the site next to nothing at any hour.
func (v *Visit) polite(r *http.Request) bool {
	return v.class == Conditional && compressed(r.Header)
}

// hashRequest tells a request from others of its reader.
func (b *Book) hashRequest(r *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(b.seed)
	h.WriteString(r.Method)
	h.WriteString(r.URL.RawQuery)
	for _, name := range [...]string{"If-None-Match", "If-Modified-Since", "Accept-Encoding", "User-Agent", "Range"} {
		h.WriteByte(0)
		for _, value := range r.Header[name] {
			h.WriteString(value)
		}
	}
	return h.Sum64()
}

// Refused notes that the visit did not pass. What was reserved for it is given back. counts
// is set if the reader was told so, by a status that says it came too often.
func (b *Book) Refused(v *Visit, counts bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := v.record
	c.giveBack(v)
	if v.grace != again {
		c.same = time.Time{} // the same again is a refusal again
	}
	if v.head {
		c.head = time.Time{}
	}
	if counts {
		c.refusals++
	}
}

// Wait is how long a refused reader is to wait: the limit's wait, but no less than its last
// answer is fresh and than the feed wants quiet. At least a second, and at most the rules'
// MaxWait.
func (b *Book) Wait(v *Visit, limit time.Duration, now time.Time, rules *Rules) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait := max(limit, time.Second)
	f := b.feeds.get(v.feed)
	if age := f.maxAge(rules); age > 0 && !v.record.served.IsZero() {
		wait = max(wait, v.record.served.Add(age).Sub(now))
	}
	if !v.quiet.IsZero() {
		wait = max(wait, v.quiet.Sub(now))
	} else if f != nil && !rules.Deaf {
		// Who comes back unconditionally must not come back into quiet hours.
		if until := f.hints.QuietUntil(now.Add(wait)); !until.IsZero() && v.class == Unconditional {
			wait = until.Sub(now)
		}
	}
	if rules.MaxWait > 0 {
		wait = min(wait, rules.MaxWait)
	}
	return wait
}

// maxAge is how long an answer is fresh by the rules or the feed, 0 if neither says.
func (f *state) maxAge(rules *Rules) time.Duration {
	switch {
	case rules.MaxAge > 0:
		return rules.MaxAge
	case f == nil || rules.Deaf:
		return 0
	}
	return f.hints.Interval
}

// MaxAge is the same for the feed of a visit.
func (b *Book) MaxAge(v *Visit, rules *Rules) time.Duration {
	if rules.MaxAge > 0 {
		return rules.MaxAge
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.feeds.get(v.feed).maxAge(rules)
}
