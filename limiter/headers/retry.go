package headers

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// RetryAfter sets Retry-After (RFC 9110, section 10.2.3) to wait in whole seconds,
// rounded up and at least 1, and returns that number. For [limiter.Never] it sets
// nothing, since no waiting helps, and returns 0.
func RetryAfter(h http.Header, wait time.Duration) int64 {
	if wait == limiter.Never {
		return 0
	}
	n := max(1, seconds(wait))
	h["Retry-After"] = []string{strconv.FormatInt(n, 10)}
	return n
}

// Lengthen adds to wait, at random, up to the fraction jitter of it, so that clients
// refused together do not all come back together. It never shortens a wait, and leaves
// [limiter.Never] alone. Every goroutine may call it at once.
func Lengthen(wait time.Duration, jitter float64) time.Duration {
	if jitter <= 0 || wait <= 0 || wait == limiter.Never {
		return wait
	}
	longest := limiter.Never - 1
	if extra := rand.Float64() * jitter * float64(wait); extra < float64(longest-wait) {
		return wait + time.Duration(extra)
	}
	return longest
}
