package feed

import (
	"strings"
	"time"
)

// A Conduct is how one reader of one feed behaved since it was first seen.
type Conduct struct {
	// Feed is the feed's name, see [Key]; empty if it was never served.
	Feed string
	// Key is what the reader is called: its name, or see [Rules].Name.
	Key string
	// Agent is the beginning of its last User-Agent.
	Agent string
	// Since is when it was first seen, Last when it came last.
	Since, Last time.Time
	// Interval is the median of the last seven times between its requests, those that are the
	// same one again left out; 0 after one request.
	Interval time.Duration

	// Requests in all, and those of them that wanted the whole feed whatever the reader has
	// of it, showed a validator that no answer carried, took no compressed body, had
	// parameters in the query that do not tell feeds apart, and sent cookies.
	Requests, Unconditional, MadeUp, Uncompressed, Extra, Cookies int64
	// Early are the requests that came before the time that the reader was told to wait
	// for, by more than a tenth.
	Early int64
	// Refused are those that were told to wait, NotModified those answered with 304.
	Refused, NotModified int64
	// Bytes of the bodies that were sent.
	Bytes int64
	// Slower is how many times as far apart its whole fetches are, see [Rules].Escalate; 1
	// if it is not penalised.
	Slower int
	// Often is how far apart polls are to be, of which a tenth may be missing: the less, the more
	// readers seem to share the key.
	Often time.Duration
}

// slice is how many records are read before requests have their turn.
const slice = 128

// Conducts returns what the book knows of its readers, in no order: those that keep wants, all
// if it is nil. Requests wait only while it lists the records, and for a few of them at a time.
//
// A reader is there as long as its record is: it is forgotten only when 50,000 pairs of reader and
// feed came since its last request. Who makes a larger share of the requests than that never is.
func (b *Book) Conducts(rules *Rules, keep func(*Conduct) bool) []Conduct {
	names, records := b.listed()
	var all []Conduct
	for len(records) > 0 {
		n := min(slice, len(records))
		b.mu.Lock()
		for _, c := range records[:n] {
			told := c.conduct(rules)
			told.Feed = names[c.manners.feed]
			if keep == nil || keep(&told) {
				all = append(all, told)
			}
		}
		b.mu.Unlock()
		records = records[n:]
	}
	return all
}

// listed returns the names of the feeds, and all records.
func (b *Book) listed() (names map[uint64]string, records []*record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	names = make(map[uint64]string, b.feeds.len())
	for key, f := range b.feeds.all {
		names[key] = f.name
	}
	records = make([]*record, 0, b.readers.len())
	for _, c := range b.readers.all {
		records = append(records, c)
	}
	return names, records
}

func (c *record) conduct(rules *Rules) Conduct {
	m := &c.manners
	return Conduct{
		Key:   strings.TrimRight(string(m.name[:]), "\x00"),
		Agent: strings.ToValidUTF8(string(m.agent[:m.agentSize]), "\ufffd"),
		Since: c.first, Last: time.Unix(0, m.last).In(c.first.Location()), Interval: m.interval(),
		Requests: int64(m.requests), Unconditional: int64(m.unconditional), MadeUp: int64(m.madeUp),
		Uncompressed: int64(m.uncompressed), Extra: int64(m.extra), Cookies: int64(m.cookies),
		Early: int64(m.early), Refused: int64(m.refused), NotModified: int64(m.notModified),
		Bytes: m.bytes, Slower: max(1, min(1<<m.penalty, rules.Escalate)), Often: rules.Often / time.Duration(max(m.people, 1)),
	}
}

// fewRequests are too few to judge a reader by.
const fewRequests = 5

// Verdict says in plain words what is wrong with a reader, the worst first; nothing if it is
// polite, or [Conduct.New].
func (c *Conduct) Verdict() []string {
	n := c.Requests
	if c.New() {
		return nil
	}
	var faults []string
	for _, f := range [...]struct {
		is   bool
		text string
	}{
		{c.Early >= 3 && c.Early*10 >= n, "ignores Retry-After"},
		{c.MadeUp >= 3 && c.MadeUp*10 >= n, "makes up validators"},
		{c.Unconditional == n && c.MadeUp == 0, "never sends validators"},
		{c.Unconditional < n && (c.Unconditional-c.MadeUp)*2 > n, "seldom sends validators"},
		{c.hurry() > 0, "asks too often"},
		{c.Uncompressed*2 > n, "takes no compression"},
		{c.Extra*10 > n, "adds to the query"},
		{c.Cookies*10 > n, "sends cookies"},
	} {
		if f.is {
			faults = append(faults, f.text)
		}
	}
	return faults
}

// New reports whether a reader is known by too few requests to be judged.
func (c *Conduct) New() bool { return c.Requests < fewRequests }

// Score says how polite a reader is, from 100 down to 0. Each habit takes away its weight times
// the share of the requests that have it.
func (c *Conduct) Score() int {
	if c.Requests == 0 {
		return 100
	}
	share := func(of int64) float64 { return min(1, float64(of)/float64(c.Requests)) }
	lost := 35*share(c.Early) + 25*share(c.Unconditional) + 10*share(c.MadeUp) + 15*c.hurry() +
		10*share(c.Uncompressed) + 3*share(c.Extra) + 2*share(c.Cookies)
	return int(100 - lost + 0.5)
}

// hurry is how much of the time between two polls is missing, from 0 to 1; 0 if that is no
// more than a tenth.
func (c *Conduct) hurry() float64 {
	if c.Interval == 0 || c.Interval >= c.Often/10*9 {
		return 0
	}
	return 1 - float64(c.Interval)/float64(c.Often)
}
