package config

import (
	"math"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

var (
	banStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	growing  = term{base: 10 * time.Minute, grow: 2, max: 24 * time.Hour, quiet: 24 * time.Hour, spread: 0.1}
)

// The length of bans grows to its cap and no further, and chance adds no more than the spread.
func TestTermLength(t *testing.T) {
	fixed := term{base: time.Hour, grow: 1, max: 24 * time.Hour}
	for _, test := range []struct {
		name   string
		term   term
		n      int
		chance float64
		want   time.Duration
	}{
		{"first", growing, 1, 0, 10 * time.Minute},
		{"second", growing, 2, 0, 20 * time.Minute},
		{"third", growing, 3, 0, 40 * time.Minute},
		{"eighth", growing, 8, 0, 1280 * time.Minute},
		{"at the cap", growing, 9, 0, 24 * time.Hour},
		{"far beyond it", growing, 100_000, 0, 24 * time.Hour},
		{"all of the spread", growing, 1, 1, 11 * time.Minute},
		{"above the cap", growing, 9, 0.5, 24*time.Hour + 72*time.Minute},
		{"does not grow", fixed, 7, 1, time.Hour},
		{"no cap below the base", term{base: time.Hour, grow: 3, max: time.Minute}, 2, 0, time.Hour},
		{"slowly", term{base: time.Minute, grow: 1.5, max: time.Hour}, 3, 0, 135 * time.Second},
	} {
		if got := test.term.length(test.n, test.chance); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// L130, B15: a key's number grows with each ban, one is forgotten for each quiet period after
// the end of the last, and it never grows beyond what makes a difference.
func TestTermCount(t *testing.T) {
	last := func(count int) *blocklist.Ban { return &blocklist.Ban{Until: banStart, Count: count} }
	for _, test := range []struct {
		name  string
		term  term
		last  *blocklist.Ban
		after time.Duration
		want  int
	}{
		{"never before", growing, nil, 0, 1},
		{"at once again", growing, last(1), 0, 2},
		{"within a quiet period", growing, last(3), 23 * time.Hour, 4},
		{"after one", growing, last(3), 24 * time.Hour, 3},
		{"after two and a half", growing, last(3), 60 * time.Hour, 2},
		{"after as many as there were", growing, last(3), 72 * time.Hour, 1},
		{"years after", growing, last(3), 1000 * 24 * time.Hour, 1},
		{"before it has ended, by another node's clock", growing, last(2), -time.Minute, 3},
		{"no more than counts", growing, last(9), 0, 9},
		{"nothing grows", term{base: time.Minute, grow: 1, max: time.Hour}, last(5), 0, 1},
	} {
		if got := test.term.count(test.last, banStart.Add(test.after)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	if got := growing.enough(); got != 9 {
		t.Errorf("as long as they become from number %d on, want 9", got)
	}
	// A ban is remembered until it makes no difference.
	for n := 1; n <= 9; n++ {
		until := growing.forget(banStart, n)
		ban := &blocklist.Ban{Until: banStart, Count: n}
		if got := growing.count(ban, until); got != 1 {
			t.Errorf("number %d is forgotten when the next would be number %d", n, got)
		}
		if got := growing.count(ban, until.Add(-time.Second)); got != 2 {
			t.Errorf("number %d is remembered too long: the next would be number %d", n, got)
		}
	}
}

// T28: who is banned for an hour and polls each 50 minutes, without a pause, is served again at
// the ceiling, and what he is told meanwhile is true: an hour without an attempt is enough.
func TestTermRollToTheCeiling(t *testing.T) {
	hourly := term{base: time.Hour, grow: 1, max: time.Hour, ceiling: 24 * time.Hour}
	ban := blocklist.Ban{Since: banStart, Until: banStart.Add(time.Hour), Count: 1}
	now := banStart
	for polls := 0; ; polls++ {
		now = now.Add(50 * time.Minute)
		if ban.Over(now) {
			if served := now.Sub(banStart); served < 24*time.Hour || served > 25*time.Hour {
				t.Errorf("served again after %s", served)
			}
			if polls != 28 {
				t.Errorf("refused %d times, want 28", polls)
			}
			return
		}
		until, moved := hourly.roll(&ban, now)
		if !moved && ban.Until.Before(banStart.Add(24*time.Hour)) {
			t.Errorf("poll %d changed nothing", polls)
		}
		ban.Until = until
		if wait := ban.Until.Sub(now); wait > time.Hour || wait < 0 {
			t.Fatalf("poll %d is told to wait %s", polls, wait)
		}
		if polls > 100 {
			t.Fatal("never served again")
		}
	}
}

func TestTermRoll(t *testing.T) {
	rolling := term{base: 10 * time.Minute, grow: 2, max: time.Hour, quiet: time.Hour, ceiling: 30 * time.Minute}
	for _, test := range []struct {
		name  string
		until time.Duration // of the ban, from its beginning
		count int
		now   time.Duration
		want  time.Duration
		moved bool
	}{
		{"an attempt begins it anew", 10 * time.Minute, 1, 5 * time.Minute, 15 * time.Minute, true},
		{"a flood changes nothing", 10 * time.Minute, 1, 59 * time.Second, 10 * time.Minute, false},
		{"until a tenth has passed", 10 * time.Minute, 1, 60 * time.Second, 11 * time.Minute, true},
		{"the second is as long as it was", 20 * time.Minute, 2, 5 * time.Minute, 25 * time.Minute, true},
		{"not beyond the ceiling", 29 * time.Minute, 1, 25 * time.Minute, 30 * time.Minute, true},
		{"and there it stays", 30 * time.Minute, 1, 29 * time.Minute, 30 * time.Minute, false},
		{"an operator's is no shorter for it", 50 * time.Minute, 0, 20 * time.Minute, 50 * time.Minute, false},
	} {
		ban := &blocklist.Ban{Since: banStart, Until: banStart.Add(test.until), Count: test.count}
		until, moved := rolling.roll(ban, banStart.Add(test.now))
		if got := until.Sub(banStart); got != test.want || moved != test.moved {
			t.Errorf("%s: until %s, moved %v; want %s, %v", test.name, got, moved, test.want, test.moved)
		}
	}
	ban := &blocklist.Ban{Since: banStart, Until: banStart.Add(time.Hour), Count: 1}
	if until, moved := growing.roll(ban, banStart.Add(50*time.Minute)); moved || !until.Equal(ban.Until) {
		t.Errorf("L130: an attempt moved a fixed ban to %s", until)
	}
}

// Chance is the same on all nodes, and spreads evenly.
func TestChance(t *testing.T) {
	if chance("key", 1) != chance("key", 1) {
		t.Error("two nodes do not agree")
	}
	const n = 10_000
	var tenths [10]int
	for i := range n {
		c := chance("5BvCmQPQUIxrNnvyXhGzZA", i)
		if c < 0 || c > 1 {
			t.Fatalf("%g", c)
		}
		tenths[min(9, int(c*10))]++
	}
	for i, got := range tenths {
		if math.Abs(float64(got)-n/10) > n/50 {
			t.Errorf("%d of %d lie in tenth %d", got, n, i)
		}
	}
}
