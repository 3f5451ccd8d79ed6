package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// L106: an answer that is not what was expected is an outage, and never a panic.
func TestForeignReplies(t *testing.T) {
	asks := asksOf(limiter.TokenBucket, 2, 10)
	for _, first := range []string{"\x00", "\x01", "\xff"} {
		for _, n := range []int{0, 1, nowLen, nowLen + 1 + answerLen, nowLen + 2*answerLen} {
			r := reply{rest: strings.Repeat(first, n)}
			err := r.begin()
			if err == nil {
				_, err = r.next(len(asks))
			}
			if err == nil {
				t.Errorf("%d times %q is taken for an answer to two asks", n, first)
			}
		}
	}

	store := open(t, redistest.Start(t, redistest.Options{}), Options{Secret: []byte("s")})
	for _, text := range []string{"return 7", "return false", "return {1, nil, 3}", "return {err = 'X oops'}", "return 'x'"} {
		if err := store.count(background, newScript(text), []string{"a", "b"}, nil); !isUnavailable(err) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// A key that is no string is known by what servers of any version say of it.
func TestWrongType(t *testing.T) {
	for text, want := range map[string]bool{
		"WRONGTYPE Operation against a key":                                           true,
		"ERR Error running script (call to f_1): @user_script:2: WRONGTYPE Operation": true,
		"OOM command not allowed":                                                     false,
	} {
		if got := wrongType(scriptError(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if wrongType(errors.New("dial: WRONGTYPE ")) {
		t.Error("what is no answer says nothing of a key")
	}
}

// L107, L122: what is left and how long to wait arrive whole and within bounds.
func TestReadAnswers(t *testing.T) {
	l := &limiter.Limit{Algorithm: limiter.FixedWindow, Events: 10, Window: time.Second}
	asks := []limiter.Ask{{Limit: l, Cost: 1}, {Limit: l, Cost: 0}, {Limit: l, Cost: 11}, {Limit: l, Cost: 1}}
	text := "\x06\x5c\x0f\x1e\x2d\x3c\x4b" +
		"\x00" +
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
	r := reply{rest: text}
	if err := r.begin(); err != nil {
		t.Fatal(err)
	}
	a, err := r.next(len(asks))
	if err != nil {
		t.Fatal(err)
	}
	a.read(asks, got)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

// The error of one request of several reads like that of one that was alone.
func TestScriptErrors(t *testing.T) {
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key":                               "WRONGTYPE Operation against a key",
		"@user_script: 31: -READONLY You can't write - as a replica.\r\n": "READONLY You can't write - as a replica.",
		"@user_script:3: something else: broke":                           "@user_script:3: something else: broke",
	} {
		r := reply{rest: "\x01\x00" + string(rune(len(text))) + text + "\x00" + strings.Repeat("x", answerLen)}
		_, err := r.next(2)
		var server redis.Error
		if err == nil || err.Error() != want || !errors.As(err, &server) {
			t.Errorf("got %q, want %q", err, want)
		}
		if a, err := r.next(1); err != nil || len(a.asks) != answerLen {
			t.Errorf("behind %q: got %v, %v", want, a, err)
		}
	}
}
