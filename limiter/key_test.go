package limiter

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
)

// Row L79: keys of several parts never meet, however their parts are cut.
func FuzzJoinKey(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("ab", "", "a", "b")
	f.Add("", "\x00", "\x00", "")
	f.Add(strings.Repeat("x", 127), "y", strings.Repeat("x", 128), "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		join := func(parts ...string) string {
			var key []byte
			for _, part := range parts {
				key = JoinKey(key, part)
			}
			return string(key)
		}
		if (join(a, b) == join(c, d)) != (a == c && b == d) {
			t.Errorf("%q, %q and %q, %q", a, b, c, d)
		}
		if join(a, b) == join(a) || join(a, b) == join(c) || join(a) == "" {
			t.Errorf("%q, %q and one part %q", a, b, c)
		}
	})
}

func TestHasher(t *testing.T) {
	// HMAC-SHA-256, cut to 128 bits, in letters that a URL may hold.
	byHMAC := func(secret, key string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(key))
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
	}
	for _, length := range []int{0, 1, sha256.BlockSize - 1, sha256.BlockSize, sha256.BlockSize + 1, 1000} {
		secret, key := strings.Repeat("s", length), strings.Repeat("k", length)
		if got, want := NewHasher([]byte(secret)).String(key), byHMAC(secret, key); got != want {
			t.Errorf("with %d bytes each: %q, want %q", length, got, want)
		}
	}
	h, want := NewHasher([]byte("secret")), byHMAC("secret", "203.0.113.7")
	if got := h.String("203.0.113.7"); got != want || len(got) != HashLen {
		t.Errorf("%q, want %q of %d letters", got, want, HashLen)
	}
	if got := string(h.Append([]byte("k:"), "203.0.113.7")); got != "k:"+want {
		t.Errorf("appended: %q", got)
	}
	if NewHasher([]byte("other")).String("203.0.113.7") == want {
		t.Error("the secret makes no difference")
	}
	if h.String("203.0.113.8") == want || h.String("") == want {
		t.Error("the key makes no difference")
	}
	long := strings.Repeat("x", 1<<20)
	if got := h.String(long); len(got) != HashLen || got == h.String(long+"x") {
		t.Errorf("a long key: %q", got)
	}
}

// The secret is the hasher's own from the start, and goroutines do not meet in it.
func TestHasherParallel(t *testing.T) {
	secret := []byte("secret")
	h := NewHasher(secret)
	want := h.String("k")
	clear(secret)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				h.String("other")
				if got := h.String("k"); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
}
