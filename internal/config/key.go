package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// What becomes of a request whose key is empty: the values of Zone.OnEmptyKey.
const (
	emptySkip     = "skip"      // the zone does not apply to it
	emptyClientIP = "client_ip" // it spends its address' budget
	emptyReject   = "reject"    // it is refused
)

// A keyFate says what becomes of a request as far as its key decides.
type keyFate uint8

const (
	keyFound  keyFate = iota // it spends the budget of its key
	keySkip                  // the zone does not apply
	keyReject                // it is refused
)

// fallbackMark begins the keys that stand in for an empty one, and no others: a key
// that happens to begin with it is given a second one. So no client can name a key
// that is another's address.
const fallbackMark = '@'

// A compiledKey says whose budget a request spends.
type compiledKey struct {
	parts   []template
	onEmpty string
	bits    prefixBits
	static  bool // without placeholders: the same for all, and never empty
}

// compileKey compiles the parts of a zone's key and reports what is wrong with them.
// No part at all makes one budget for everybody. onEmpty is one of the words above.
func compileKey(r report, parts []string, onEmpty string, bits prefixBits) *compiledKey {
	k := &compiledKey{onEmpty: onEmpty, bits: bits, static: true}
	lintLiterals(r, parts)
	for _, text := range parts {
		t, err := parseTemplate(text, bits)
		if err != nil {
			r.problem(err)
			continue
		}
		warning, unknown := checkPlaceholders(text)
		r.problem(unknown)
		for _, w := range []string{warning, lintKey(t)} {
			if w != "" {
				r.warn(w)
			}
		}
		k.parts = append(k.parts, t)
		k.static = k.static && t.literal()
	}
	return k
}

// common reports whether the key says nothing of the client: one budget for all who ask for the same.
func (k *compiledKey) common() bool {
	for _, part := range k.parts {
		for i := range part {
			switch part[i].source {
			case fromLiteral, fromHost, fromPath, fromOriginalPath, fromMethod:
			default:
				return false
			}
		}
	}
	return true
}

// appendTo appends the request's key to dst, unless its fate is another. client is
// ClientIP(r). Keys of several parts are those that [limiter.JoinKey] makes of them.
func (k *compiledKey) appendTo(dst []byte, r *http.Request, client netip.Addr) ([]byte, keyFate) {
	start := len(dst)
	filled := k.static
	for _, part := range k.parts {
		at := len(dst)
		var some bool
		dst, some = part.appendTo(dst, r, client)
		filled = filled || some
		if len(k.parts) > 1 {
			var size [binary.MaxVarintLen64]byte
			n := binary.PutUvarint(size[:], uint64(len(dst)-at))
			dst = slices.Insert(dst, at, size[:n]...)
		}
	}
	if !filled {
		return k.appendEmpty(dst[:start], client)
	}
	if len(dst) > start && dst[start] == fallbackMark {
		dst = slices.Insert(dst, start, fallbackMark)
	}
	return dst, keyFound
}

// appendEmpty does what the zone wants done with an empty key. Clients that have no
// address either share one budget: no limit at all would be the worse surprise.
func (k *compiledKey) appendEmpty(dst []byte, client netip.Addr) ([]byte, keyFate) {
	switch k.onEmpty {
	case emptySkip:
		return dst, keySkip
	case emptyReject:
		return dst, keyReject
	}
	return k.bits.appendNetwork(append(dst, fallbackMark), client), keyFound
}

// maxValue is the longest value that stands in a key as it is. A longer one is cut,
// and its hash put in place of the rest: one byte longer than any value that is
// not, so that the two never meet.
const maxValue = 256

// appendBounded appends a value to dst, in at most maxValue+1 bytes.
func appendBounded(dst []byte, value string) []byte {
	if len(value) <= maxValue {
		return append(dst, value...)
	}
	sum := sha256.Sum256([]byte(value))
	head := maxValue + 1 - base64.RawURLEncoding.EncodedLen(len(sum))
	dst = append(dst, value[:head]...)
	return base64.RawURLEncoding.AppendEncode(dst, sum[:])
}

// lintKey warns of placeholders that make poor keys, whatever they are.
func lintKey(t template) string {
	var notes []string
	for i := range t {
		s := &t[i]
		name := s.text
		switch s.source {
		case fromLiteral:
			continue
		case fromHeader:
			name = headerPrefix + s.text
		}
		for _, l := range keyLints {
			if name == l.name || strings.HasSuffix(l.name, ".") && strings.HasPrefix(name, l.name) {
				notes = append(notes, fmt.Sprintf("{%s} %s", name, l.note))
			}
		}
	}
	return strings.Join(notes, "; ")
}

const (
	oneForAll = "is the same for every request: all share one budget"
	oneEach   = "differs with every request: the limit can never be reached"
	byClient  = "is whatever the client sends: use {http.vars.client_ip}, and trusted_proxies in the server's options"
	onRefusal = "is set only once a request has been refused"
)

// keyLints are names, or families of names that end in a dot.
var keyLints = []struct{ name, note string }{
	{"env.", oneForAll},
	{"system.", oneForAll},
	{"file.", "is the same for every request, and reads the disk for each"},
	{"time.now.", oneEach},
	{"time.now", oneEach},
	{"http.request.uuid", oneEach},
	{"http.request.duration", oneEach},
	{"http.request.duration_ms", oneEach},
	{"http.request.remote", "holds the port, which differs with every connection: use {http.request.remote.host}"},
	{"http.request.remote.port", "differs with every connection: use {http.request.remote.host}"},
	{"http.request.body", "reads the whole body before the limit decides"},
	{"http.request.body_base64", "reads the whole body before the limit decides"},
	{"http.request.header.Host", "is always empty: use {http.request.host}"},
	{"http.request.header.X-Forwarded-For", byClient},
	{"http.request.header.Forwarded", byClient},
	{"http.request.header.X-Real-Ip", byClient},
	{"http.request.header.X-Client-Ip", byClient},
	{"http.request.header.True-Client-Ip", byClient},
	{"http.request.header.Cf-Connecting-Ip", byClient},
	{"http.rate_limit.exceeded.", onRefusal},
	{"http.block.", onRefusal},
}
