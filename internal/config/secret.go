package config

import (
	"crypto/rand"

	"github.com/weirhq/caddy-weir/limiter"
)

// newHasher returns the hasher for keys that are shown to somebody. Without a secret of
// the user's own it has one that lasts as long as the process.
func newHasher(secret string) *limiter.Hasher {
	if secret != "" {
		return limiter.NewHasher([]byte(secret))
	}
	return limiter.NewHasher(processSecret[:])
}

// processSecret is made anew by each process, so that a key has one hash over reloads.
var processSecret = func() (secret [32]byte) {
	// Read never fails: it ends the program instead.
	_, _ = rand.Read(secret[:])
	return secret
}()
