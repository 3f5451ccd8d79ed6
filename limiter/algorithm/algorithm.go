// Package algorithm holds the ways of counting, each as twins that lie side by side: a
// Go file and a Lua file of one name, which agree to the byte on every state and
// every answer. A store decides where the bytes lie; what they mean is decided here.
//
// # States
//
// A state begins with the layout's version; all numbers are unsigned, big-endian, and
// times are instants in microseconds unless said otherwise. An empty state is a fresh
// key. A state that cannot be read (a foreign version or length) counts as fresh.
//
//	token_bucket     version 1 | time 7 | part 3 | used 4 | age 5                 20 bytes
//	min_interval     a token bucket of one
//	fixed_window     version 1 | start 7 | count 4                                12 bytes
//	sliding_counter  version 1 | start 7 | current 4 | previous 4                 16 bytes
//	sliding_window   version 1 | k 3 | fill 4 | marks of 6 (units of 8 µs)        at most 440
//	sliding_log      version 1 | size 4 | next 4 | used 4 | events of 7           13 + 7 × events
//	in_flight        version 1 | leases of 15: name 8, until 7                    1 + 15 × leases
//
// While a limit that counts rejected asks refuses a key, its state stands in an
// envelope: the byte 255, then the 7 bytes of the instant since which it refuses.
// See refuse.go.
//
// On Redis 4 bytes stand before a state, and behind the envelope: until when the server keeps the key at
// least, in seconds since 1970. See prelude.lua in package redisstore.
//
// The clock may step back: an instant in a state that lies ahead of now counts as now.
package algorithm

import (
	"fmt"
	"strings"

	"github.com/weirhq/caddy-weir/limiter"
)

// An Algorithm is one way of counting. It is stateless: all it remembers stands in the
// state, whose room Spend and Adjust may reuse. No method allocates unless a state
// has to grow or to be laid out anew. Stores do not call Peek, Spend and Adjust
// themselves, but through the functions of refuse.go.
type Algorithm interface {
	// Name is the algorithm's one word in configurations, files and metrics.
	Name() string
	// Check says what in the limit's numbers means nothing to this algorithm, or
	// cannot be counted exactly. Limit.Check has passed before.
	Check(l *limiter.Limit) error
	// Peek answers the ask without charging it: Remaining and Reset as they are.
	Peek(now limiter.Instant, state []byte, a *limiter.Ask) limiter.Result
	// Spend charges the ask and returns the new state with the answer after it. An
	// ask that Peek refused may be spent too: what is used then stops at the
	// limit, the newest spending kept, and the answer is Peek's on the new state.
	Spend(now limiter.Instant, state []byte, a *limiter.Ask) ([]byte, limiter.Result)
	// Adjust applies a change and returns the new state and how the key then
	// stands. The state is laid down as of now even if nothing came of the change;
	// it is empty if the key is as good as new.
	Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result)

	// take is Peek, and then Spend if the ask passes and costs anything, in one reading of
	// the state. The answer is written where it is wanted: this is what a request waits
	// for, and to hand it on costs as much as to find it.
	take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte
	// rebase writes now over the instants of a state that lie ahead of it, and
	// reports whether there were any.
	rebase(now limiter.Instant, state []byte, l *limiter.Limit) ([]byte, bool)
}

// version is the first byte of every state.
const version = 1

// All lists every way of counting.
var All = []Algorithm{
	slidingWindow{}, slidingLog{}, slidingCounter{}, tokenBucket{}, fixedWindow{}, minInterval{}, inFlight{},
}

// Find returns the algorithm of that name, or an error that lists the names there are.
func Find(name string) (Algorithm, error) {
	if a := Of(name); a != nil {
		return a, nil
	}
	names := make([]string, len(All))
	for i, a := range All {
		names[i] = a.Name()
	}
	return nil, fmt.Errorf("algorithm: must be one of %s, got %q", strings.Join(names, ", "), name)
}

// Of returns the algorithm of that name, or nil.
func Of(name string) Algorithm {
	if n := Number(name); n >= 0 {
		return All[n]
	}
	return nil
}

// Number returns the place in All of the algorithm of that name, or -1. Stores call it for
// every ask.
func Number(name string) int {
	switch name {
	case limiter.SlidingWindow:
		return 0
	case limiter.SlidingLog:
		return 1
	case limiter.SlidingCounter:
		return 2
	case limiter.TokenBucket:
		return 3
	case limiter.FixedWindow:
		return 4
	case limiter.MinInterval:
		return 5
	case limiter.InFlight:
		return 6
	}
	return -1
}
