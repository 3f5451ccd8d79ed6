package limiter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
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
	// inner and outer are the secret as what is hashed begins with it, and the hash of that.
	inner, outer [sha256.BlockSize]byte
}

// NewHasher returns a hasher that is keyed by secret.
func NewHasher(secret []byte) *Hasher {
	h := new(Hasher)
	if len(secret) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		secret = sum[:]
	}
	copy(h.inner[:], secret)
	copy(h.outer[:], secret)
	for i := range h.inner {
		h.inner[i] ^= 0x36
		h.outer[i] ^= 0x5c
	}
	return h
}

// HashLen is the length in bytes of what Append adds.
const HashLen = 22

// Append appends the key's hash to dst: 22 letters, digits, '-' and '_'. It does what crypto/hmac does, to
// the byte, but without its objects, so that nothing is allocated and none of them has to be shared.
func (h *Hasher) Append(dst []byte, key string) []byte {
	var room [256]byte
	inner := sha256.Sum256(append(append(room[:0], h.inner[:]...), key...))
	outer := sha256.Sum256(append(append(room[:0], h.outer[:]...), inner[:]...))
	return base64.RawURLEncoding.AppendEncode(dst, outer[:16])
}

// String returns the key's hash.
func (h *Hasher) String(key string) string { return string(h.Append(nil, key)) }
