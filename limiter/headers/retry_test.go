package headers

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

// TestRetryAfter: L109 and L115, whole seconds and always present.
func TestRetryAfter(t *testing.T) {
	tests := []struct {
		wait time.Duration
		want int64
	}{
		{-time.Second, 1},
		{0, 1},
		{1, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{90 * time.Second, 90},
		{time.Hour - time.Millisecond, 3600},
		{limiter.MaxWindow, 366 * 24 * 3600},
		{math.MaxInt64 - 1, 9223372037}, // L59
	}
	for _, tt := range tests {
		h := http.Header{}
		got := RetryAfter(h, tt.wait)
		if text := strconv.FormatInt(tt.want, 10); got != tt.want || h.Get("Retry-After") != text {
			t.Errorf("%v: got %d and %q, want %d", tt.wait, got, h.Get("Retry-After"), tt.want)
		}
	}
}

// TestRetryAfterNever: L35, whoever can never pass is not told to try again.
func TestRetryAfterNever(t *testing.T) {
	h := http.Header{}
	if got := RetryAfter(h, Lengthen(limiter.Never, 0.5)); got != 0 || len(h) > 0 {
		t.Errorf("got %d and %v, want nothing", got, h)
	}
}

// TestRetryAfterJitter draws from many goroutines at once, which a source without a
// lock would not survive, and wants waits that are longer, never shorter.
func TestRetryAfterJitter(t *testing.T) {
	const wait, jitter = 100 * time.Second, 0.5
	seen := make([]map[int64]bool, 4)
	var wg sync.WaitGroup
	for i := range seen {
		seen[i] = map[int64]bool{}
		wg.Go(func() {
			for range 1000 {
				seen[i][RetryAfter(http.Header{}, Lengthen(wait, jitter))] = true
			}
		})
	}
	wg.Wait()
	all := map[int64]bool{}
	for _, s := range seen {
		for n := range s {
			if n < 100 || n > 150 {
				t.Errorf("%d s is not between 100 and 150", n)
			}
			all[n] = true
		}
	}
	// 4,000 draws from 50 numbers miss 10 of them with a chance of nearly nothing.
	if len(all) < 40 {
		t.Errorf("only %d different waits", len(all))
	}
}

func TestRetryAfterJitterOfHugeWait(t *testing.T) {
	for range 100 {
		if got := RetryAfter(http.Header{}, Lengthen(math.MaxInt64-1, 1)); got != 9223372037 {
			t.Fatalf("got %d, want the longest wait", got)
		}
	}
}
