package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// A call is one request's asks, packed for take.lua, on their way to the server that has all of
// their states, and back.
//
// It may share a trip with others, whose answer may come when its caller does not wait any more.
// So it holds nothing of the caller's: what it carries is a copy, and the caller itself unpacks
// the answer.
type call struct {
	keys   []string // names of the states, one for each ask
	slot   int      // of all keys
	packed []byte   // see take.lua
	needed set
	end    time.Time // of the caller's patience

	answer answer
	err    error

	state atomic.Int32
	done  chan struct{} // gets a value with the answer
	lane  *lane
	next  *call    // waits behind this one in the lane
	alone [1]*call // itself, for a trip of its own
	args  []any    // room for those of an order
}

// An answer is what take.lua says to one request: at which instant, and of its asks.
type answer struct {
	now  limiter.Instant
	asks string
}

// States of a call.
const (
	awaited  = iota // its caller waits for it, or is about to
	answered        // its answer is there, or is being written
	left            // its caller has gone
	straight        // its caller does its trip itself
)

// errLate is the error of a call whose answer did not come in time. The call belongs to the lane
// from then on.
var errLate = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

// newCall returns a call about the states with those names. It keeps keys.
func (l *lane) newCall(keys []string, slot int) *call {
	c, ok := l.idle.Get().(*call)
	if !ok {
		c = &call{lane: l, done: make(chan struct{}, 1)}
	}
	c.keys, c.slot = keys, slot
	return c
}

// recycle gives a call up, after which nobody may look at it.
func (c *call) recycle() {
	c.keys, c.answer, c.err = nil, answer{}, nil
	c.state.Store(awaited)
	c.lane.idle.Put(c)
}

// pack puts the asks in, one for each key. If their request is refused already,
// nothing is charged but what limits count that refuse it themselves.
func (c *call) pack(asks []limiter.Ask, refused bool) error {
	c.packed = binary.BigEndian.AppendUint16(c.packed[:0], uint16(len(asks)))
	c.needed = 0
	for i := range asks {
		kind, err := kindOf(asks[i].Limit.Algorithm)
		if err != nil {
			return err
		}
		c.needed |= 1 << kinds[kind].twin
		c.packed = appendAsk(c.packed, kind, &asks[i], refused)
	}
	return nil
}

// reply hands over the answer, if anybody waits for it.
func (c *call) reply(a answer, err error) {
	if c.state.Load() == straight {
		c.answer, c.err = a, err
		return
	}
	if !c.state.CompareAndSwap(awaited, answered) {
		c.recycle()
		return
	}
	c.answer, c.err = a, err
	c.done <- struct{}{}
}

// await waits for the answer until ctx is done.
func (c *call) await(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.state.CompareAndSwap(awaited, left) {
			return errLate
		}
		<-c.done // about to come
	}
	return c.err
}

// abandoned reports whether the caller has gone.
func (c *call) abandoned() bool { return c.state.Load() == left }
