package redisstore

import (
	"encoding/binary"
	"fmt"
	"strings"
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

// A reply is what take.lua returned, as far as it has not been read.
type reply struct {
	now  limiter.Instant
	rest string
}

func (r *reply) begin() error {
	if len(r.rest) < nowLen {
		return r.odd()
	}
	r.now, r.rest = limiter.Instant(read7(r.rest)), r.rest[nowLen:]
	return nil
}

// next returns the answer to the next request, which has so many asks.
func (r *reply) next(asks int) (answer, error) {
	if length := 1 + answerLen*asks; len(r.rest) >= length && r.rest[0] == 0 {
		a := answer{r.now, r.rest[1:length]}
		r.rest = r.rest[length:]
		return a, nil
	}
	if len(r.rest) < 3 || r.rest[0] != 1 {
		return answer{}, r.odd()
	}
	length := 3 + int(r.rest[1])<<8 + int(r.rest[2])
	if len(r.rest) < length {
		return answer{}, r.odd()
	}
	why := newScriptError(r.rest[3:length])
	r.rest = r.rest[length:]
	return answer{}, why
}

// odd gives up reading.
func (r *reply) odd() error {
	err := fmt.Errorf("an answer that ends with %d strange bytes", len(r.rest))
	r.rest = ""
	return err
}

// A scriptError is the error of a command in a script that went on, as the server words it.
type scriptError string

// newScriptError makes one of what Lua says. Servers before Redis 7 put in front of some errors where in
// the script they occurred: "@user_script: 12: -READONLY …".
func newScriptError(text string) scriptError {
	if strings.HasPrefix(text, "@") {
		if _, why, ok := strings.Cut(text, ": -"); ok {
			text = why
		}
	}
	return scriptError(strings.TrimSpace(text))
}

// Error returns the error as Redis words it.
func (e scriptError) Error() string { return string(e) }

// RedisError says that the server answered, see [redis.Error].
func (scriptError) RedisError() {}

// read turns the answer into results.
func (a answer) read(asks []limiter.Ask, results []limiter.Result) {
	for i := range asks {
		ask, r, text := &asks[i], &results[i], a.asks[i*answerLen:]
		most := ask.Limit.Max()
		left := int64(int32(read4(text)))
		wait := time.Duration(read7(text[11:])) * time.Microsecond
		if ask.Cost > 0 && hopeless(ask) {
			wait = limiter.Never
		}
		*r = limiter.Result{
			Allowed:   wait == 0 || ask.Cost <= 0,
			Max:       most,
			Remaining: min(max(left, 0), most),
			Reset:     time.Duration(read7(text[4:])) * time.Microsecond,
			Wait:      wait,
			Now:       a.now,
		}
	}
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
