package redisstore

import (
	"fmt"
	"strconv"

	"github.com/weirhq/caddy-weir/limiter"
)

// kinds lists the ways of counting. The letter stands in key names, and from the first release on must
// never change: a new layout of states, which no longer reads the old ones, takes a new letter.
// The twin is the index of the kind whose Lua text counts.
var kinds = [...]struct {
	name   string
	letter byte
	twin   int
}{
	{limiter.SlidingWindow, 'w', 0},
	{limiter.SlidingLog, 'l', 1},
	{limiter.SlidingCounter, 'c', 2},
	{limiter.TokenBucket, 't', tokenBucket},
	{limiter.MinInterval, 'm', tokenBucket},
	{limiter.FixedWindow, 'f', 5},
	{limiter.InFlight, 'i', inFlight},
}

// Indices in kinds of those that need numbers of their own.
const (
	slidingWindow = 0
	tokenBucket   = 3
	inFlight      = 6
)

// kindOf returns the index in kinds of an algorithm.
func kindOf(name string) (int, error) {
	for i := range kinds {
		if kinds[i].name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("algorithm: no algorithm %q", name)
}

// maxClear is the length up to which a key is written in clear, if that is wanted.
const maxClear = 96

// names builds the names of keys: prefix, zone, algorithm, index among the zone's limits,
// and the subject in braces:
//
//	weir:api:w0:{5BvCmQPQUIxrNnvyXhGzZA}
//
// A cluster places a key by what stands in the braces, so all limits of one subject
// share a node. Nothing else in a name can open braces.
type names struct {
	prefix string
	clear  bool
}

func (n *names) build(h *limiter.Hasher, kind int, l *limiter.Limit, key string) string {
	var room [128]byte
	b := append(room[:0], n.prefix...)
	b = escape(b, l.Zone)
	b = append(b, ':', kinds[kind].letter)
	b = strconv.AppendInt(b, int64(l.Index), 10)
	b = append(b, ':', '{')
	b = n.subject(b, h, key)
	return string(append(b, '}'))
}

// subject appends what a key is called: its hash, or else the key itself, if it is short
// enough. No escaped text contains "%-", so the two are never confused.
func (n *names) subject(b []byte, h *limiter.Hasher, key string) []byte {
	if !n.clear {
		return h.Append(b, key)
	}
	if key != "" && len(key) <= maxClear {
		start := len(b)
		if b = escape(b, key); len(b)-start <= maxClear {
			return b
		}
		b = b[:start]
	}
	return h.Append(append(b, '%', '-'), key)
}

// escape appends text with every byte percent-encoded that is not a visible ASCII
// character, or that means something in names.
func escape(b []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c >= 0x7f || c == '{' || c == '}' || c == '%' || c == '*':
			b = append(b, '%', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
