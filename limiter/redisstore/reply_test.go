package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// L106: an answer that is not what was expected is an outage, and never a panic.
func TestForeignReplies(t *testing.T) {
	asks := asksOf(limiter.TokenBucket, 2, 10)
	for _, n := range []int{0, 1, nowLen, nowLen + answerLen, nowLen + 2*answerLen - 1, nowLen + 3*answerLen} {
		if err := readAnswers(strings.Repeat("\xff", n), asks, make([]limiter.Result, 2)); err == nil {
			t.Errorf("an answer of %d bytes is taken for one to two asks", n)
		}
	}

	store := open(t, redistest.Start(t, redistest.Options{}), Options{Secret: []byte("s")})
	for _, text := range []string{"return 7", "return false", "return {1, nil, 3}", "return {err = 'X oops'}", "return 'x'"} {
		if err := store.count(background, newScript(text), []string{"a", "b"}, nil); !isUnavailable(err) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// L107, L122: what is left and how long to wait arrive whole and within bounds.
func TestReadAnswers(t *testing.T) {
	l := &limiter.Limit{Algorithm: limiter.FixedWindow, Events: 10, Window: time.Second}
	asks := []limiter.Ask{{Limit: l, Cost: 1}, {Limit: l, Cost: 0}, {Limit: l, Cost: 11}, {Limit: l, Cost: 1}}
	reply := "\x06\x5c\x0f\x1e\x2d\x3c\x4b" +
		// 3 left, reset in 2 µs, no wait
		"\x00\x00\x00\x03" + "\x00\x00\x00\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x00\x00" +
		// -1 left, reset and wait of 2^48 µs
		"\xff\xff\xff\xff" + "\x01\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00" +
		// more left than there can be
		"\x00\x00\x00\x0b" + "\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x01\x00" + "\x00\x00\x00\x00\x00\x01\x00"
	const now = 0x065c0f1e2d3c4b
	long := time.Duration(1<<48) * time.Microsecond
	want := []limiter.Result{
		{Allowed: true, Max: 10, Remaining: 3, Reset: 2 * time.Microsecond, Now: now},
		{Allowed: true, Max: 10, Remaining: 0, Reset: long, Wait: long, Now: now},
		{Allowed: false, Max: 10, Remaining: 10, Wait: limiter.Never, Now: now},
		{Allowed: false, Max: 10, Reset: 256 * time.Microsecond, Wait: 256 * time.Microsecond, Now: now},
	}
	got := make([]limiter.Result, len(asks))
	if err := readAnswers(reply, asks, got); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}
