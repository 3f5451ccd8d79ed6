package redisstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

// What goes to the scripts and comes from them is packed, since on the server each single
// argument and number costs as much as a decision. The forms stand at the head of
// take.lua, adjust.lua and lease.lua.

// Kinds of asks, as take.lua names them.
const (
	plainAsk = iota
	shadowAsk
	lookingAsk
	hopelessAsk
	hopelessShadow
	late // is added to a plain ask or a shadow of a request that was refused elsewhere
)

const (
	nowLen    = 7
	answerLen = 18
)

// appendAsk packs an ask for take.lua.
func appendAsk(b []byte, kind int, a *limiter.Ask, refused bool) []byte {
	cost, what := a.Cost, plainAsk
	switch {
	case kind == inFlight && cost > 0:
		cost = 1
	case hopeless(a):
		// What it would cost plays no part.
		cost, what = 1, hopelessAsk
	}
	if a.Limit.Shadow {
		what++
	}
	if a.Cost <= 0 {
		// One that only looks is told about a cost of 1.
		cost, what = 1, lookingAsk
		if kind == inFlight {
			cost = 0
		}
	}
	if refused && what <= shadowAsk {
		what += late
	}
	twin := kinds[kind].twin
	b = append(b, kinds[twin].letter, byte(what))
	b = binary.BigEndian.AppendUint32(b, uint32(cost))
	b = appendNumbers(b, twin, a.Limit, a.Lease)
	b = append7(b, micros(algorithm.Longest(a)))
	return append7(b, micros(a.Limit.Ceiling))
}

// hopeless reports whether an ask can never pass.
func hopeless(a *limiter.Ask) bool {
	return a.Cost > a.Limit.Max() && a.Limit.Algorithm != limiter.InFlight
}

// appendChange packs a change for adjust.lua.
func appendChange(b []byte, kind int, c *limiter.Change) []byte {
	twin := kinds[kind].twin
	delta := max(min(c.Delta, limiter.MaxEvents), -limiter.MaxEvents)
	b = append(b, kinds[twin].letter)
	b = binary.BigEndian.AppendUint32(b, uint32(int32(delta)))
	b = appendNumbers(b, twin, c.Limit, "")
	return append7(b, int64(c.Spent))
}

// appendNumbers packs what a twin counts by: a 4, b 7, c 4, d 4.
func appendNumbers(b []byte, twin int, l *limiter.Limit, lease string) []byte {
	events, window := l.Events, micros(l.Window)
	var name [8]byte
	switch twin {
	case slidingWindow:
		binary.BigEndian.PutUint32(name[:], uint32(algorithm.MarkEvents(events)))
	case tokenBucket:
		events, window = algorithm.Rate(l)
		binary.BigEndian.PutUint32(name[:], uint32(l.Max()))
	case inFlight:
		copy(name[:], lease)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(events))
	return append(append7(b, window), name[:]...)
}

// readAnswers turns the reply of take.lua into results.
func readAnswers(reply string, asks []limiter.Ask, results []limiter.Result) error {
	if want := nowLen + answerLen*len(asks); len(reply) != want {
		return fmt.Errorf("an answer of %d bytes instead of %d", len(reply), want)
	}
	now := limiter.Instant(read7(reply))
	reply = reply[nowLen:]
	for i := range asks {
		a, r := &asks[i], &results[i]
		most := a.Limit.Max()
		left := int64(int32(read4(reply)))
		wait := time.Duration(read7(reply[11:])) * time.Microsecond
		if a.Cost > 0 && hopeless(a) {
			wait = limiter.Never
		}
		*r = limiter.Result{
			Allowed:   wait == 0 || a.Cost <= 0,
			Max:       most,
			Remaining: min(max(left, 0), most),
			Reset:     time.Duration(read7(reply[4:])) * time.Microsecond,
			Wait:      wait,
			Now:       now,
		}
		reply = reply[answerLen:]
	}
	return nil
}

func append7(b []byte, v int64) []byte {
	return append(b, byte(v>>48), byte(v>>40), byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

func read7(s string) int64 {
	return int64(s[0])<<48 | int64(read4(s[1:]))<<16 | int64(s[5])<<8 | int64(s[6])
}

func read4(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }
