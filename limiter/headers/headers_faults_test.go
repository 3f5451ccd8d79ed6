package headers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// Row L64: one request in two seconds is a quota of 1 and a window of 2, in whole numbers.
func TestSlowRate(t *testing.T) {
	h := http.Header{}
	Write(h, Both, decision(sliding("slow", 1, 2*time.Second), limiter.Result{Allowed: true, Max: 1, Reset: 2 * time.Second}))
	want := fields(
		"X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2",
		"RateLimit-Policy", `"slow";q=1;w=2`, "RateLimit", `"slow";r=0;t=2`)
	if !equal(h, want) {
		t.Errorf("got  %v\nwant %v", h, want)
	}
}

// Rows L109, L110: whatever the wait, Retry-After and the resets are digits, and no dates.
func TestTimesAreDigits(t *testing.T) {
	for wait := time.Duration(1); wait < 400*24*time.Hour; wait = wait*3 + 7 {
		h := http.Header{}
		RetryAfter(h, Lengthen(wait, 0.3))
		Write(h, Legacy, decision(sliding("api", 9, time.Minute), limiter.Result{Max: 9, Wait: wait, Reset: wait}))
		for _, name := range []string{"Retry-After", "X-RateLimit-Reset"} {
			if text := h.Get(name); text == "" || strings.Trim(text, "0123456789") != "" {
				t.Errorf("%s of %s: %q", name, wait, text)
			}
		}
	}
}
