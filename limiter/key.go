package limiter

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
)

// JoinKey appends one part of a key to dst, behind its length, so that keys of
// several parts never collide: "a:b" and "c" differ from "a" and "b:c".
func JoinKey(dst []byte, part string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	return append(dst, part...)
}

// A Hasher turns keys into names that tell nothing about the client to anyone
// without its secret: HMAC-SHA-256 (RFC 2104) cut to 128 bits. A plain hash would not
// do, since all IPv4 addresses can be tried. It is safe for concurrent use.
type Hasher struct {
	macs sync.Pool
}

// NewHasher returns a hasher that is keyed by secret.
func NewHasher(secret []byte) *Hasher {
	secret = append([]byte(nil), secret...)
	return &Hasher{macs: sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

// HashLen is the length in bytes of what Append adds.
const HashLen = 22

// Append appends the key's hash to dst: 22 letters, digits, '-' and '_'.
func (h *Hasher) Append(dst []byte, key string) []byte {
	mac := h.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write([]byte(key))
	var sum [sha256.Size]byte
	full := mac.Sum(sum[:0])
	h.macs.Put(mac)
	return base64.RawURLEncoding.AppendEncode(dst, full[:16])
}

// String returns the key's hash.
func (h *Hasher) String(key string) string { return string(h.Append(nil, key)) }
