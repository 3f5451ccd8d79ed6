// Package feed knows what a reader of feeds is: which requests are polite, what they cost, and
// what a reader may be told.
//
// A [Book] keeps what went by: of each feed its last versions, by their validators, and of
// each client what it has received. [Book.Enter] says of a request which of two budgets it
// spends and how much; [Book.Served] learns from the answer and says what it came to. The
// package counts nothing itself, and knows nothing of Caddy: the limits stand in package
// limiter, the clock is an argument.
//
// The rules are those that writers of readers and of blogs came to in public, above all Rachel
// Kroll's (rachelbythebay.com, feed reader behavior), who asks for conditional requests once
// an hour and unconditional ones once a day, and Glenn Fleishman's of 2004, by which nobody
// needs the same feed twice.
package feed

import (
	"net/http"
	"time"
)

// Full is the cost of a whole feed, or of a poll, in the units of the two budgets. A
// twentieth of it is the least that anything costs.
const Full = 20

// Slight is what an answer without a body costs in the budget of unconditional requests.
const Slight = 1

// A Class is what a request shows of its client's manners.
type Class uint8

// The classes.
const (
	// Unconditional requests want the whole feed, whatever the client has of it; so do
	// those with a validator that no answer carried, and those of other methods.
	Unconditional Class = iota
	// Conditional requests want what is new.
	Conditional
)

// String returns the class's word in configurations.
func (c Class) String() string {
	if c == Conditional {
		return "conditional"
	}
	return "unconditional"
}

// Rules are what a zone wants of its feeds.
type Rules struct {
	// Announce is for how long after a change anybody gets the whole feed for nothing.
	// 0 for never.
	Announce time.Duration
	// MaxAge is how long an answer is fresh. Default: what the feed says itself.
	MaxAge time.Duration
	// Deaf is set if what feeds say of themselves does not count.
	Deaf bool
	// Bytes is set if a whole feed is charged by its size against the usual one.
	Bytes bool
	// MaxWait is the longest that a reader is told to wait. 0 for any time.
	MaxWait time.Duration
	// Escalate is how many times as far apart the whole fetches of a reader may be at most
	// that does not wait as it is told. They are twice as far apart with each request that
	// comes before the time, by more than a tenth of it; half of that is forgotten with
	// each day without one, and all by who has waited for MaxWait. Up to 1 never.
	Escalate int
	// Often is how far apart polls are to be, by which reports judge readers.
	Often time.Duration
	// Name appends what a reader is called in reports, at most 22 bytes, that must not tell
	// its key. Nil if there are none.
	Name func(dst []byte, key string) []byte
}

// A Reader is who asks, as far as that is known when a request comes.
type Reader struct {
	// Key is whose budget the request spends.
	Key string
	// Name is what the reader is called in reports; empty if it is known by its key alone,
	// see [Rules].Name.
	Name string
	// People is how many readers seem to share the key; below 1 counts as 1.
	People int
}

// A Request is what a book has to know of one.
type Request struct {
	// Feed is the feed's name, see [Key].
	Feed []byte
	// Reader is who asks for it.
	Reader Reader
	// HTTP is the request itself.
	HTTP *http.Request
	// Extra is set if its query has parameters that do not tell feeds apart.
	Extra bool
	// Now is when it came.
	Now time.Time
}

// people is how many whole feeds of one version the reader may have for nothing.
func (r *Reader) people() uint16 { return uint16(min(max(r.People, 1), manyGrants-1)) }
