package config

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Each ban that was in force and is no longer is told of once, with how it ended.
func TestEnds(t *testing.T) {
	ban := func(key string, until time.Duration, more ...func(*blocklist.Ban)) *blocklist.Ban {
		b := &blocklist.Ban{Key: key, Origin: "z", Zone: "z", Since: banStart, Until: banStart.Add(until)}
		for _, m := range more {
			m(b)
		}
		return b
	}
	remembered := func(b *blocklist.Ban) { b.Forget = b.Until.Add(time.Hour) }
	early, late := ban("early", time.Minute, remembered), ban("late", time.Hour)
	lifted, gone := ban("lifted", time.Hour), ban("gone", 2*time.Minute)
	before := ban("before", -time.Second, remembered) // was over before anybody looked
	var e ends
	e.begin(blocklist.BansOf(early, late, lifted, gone, before), banStart)
	look := func(after time.Duration, want string, bans ...*blocklist.Ban) {
		t.Helper()
		got := []string{}
		e.look(blocklist.BansOf(bans...), banStart.Add(after), func(b *blocklist.Ban, lifted bool) {
			got = append(got, fmt.Sprintf("%s %v", b.Key, lifted))
		})
		slices.Sort(got)
		if fmt.Sprint(got) != want {
			t.Errorf("after %s: %v, want %s", after, got, want)
		}
	}
	look(30*time.Second, "[]", early, late, lifted, gone, before)
	look(time.Minute, "[early false]", early, late, lifted, gone, before)
	look(time.Minute+time.Second, "[]", early, late, lifted, gone)
	look(90*time.Second, "[lifted true]", early, late, gone)
	// Swept out, once over: it was not lifted.
	look(3*time.Minute, "[gone false]", early, late)
	// One that is made longer has not ended, and a new one of the same key ends again.
	longer := ban("late", 2*time.Hour)
	again := ban("early", 61*time.Minute)
	look(59*time.Minute, "[]", longer, again)
	look(61*time.Minute, "[early false]", longer, again)
	look(119*time.Minute, "[]", longer)
	look(2*time.Hour, "[late false]", longer)
	look(3*time.Hour, "[]")
}

// While nothing ends and nothing changes nothing is looked at, however many bans there are.
func TestEndsCostNothingMeanwhile(t *testing.T) {
	var bans []*blocklist.Ban
	for i := range 1000 {
		bans = append(bans, &blocklist.Ban{Key: fmt.Sprint(i), Until: banStart.Add(time.Hour)})
	}
	set := blocklist.BansOf(bans...)
	var e ends
	e.begin(set, banStart)
	at := e.at
	e.look(set, banStart.Add(59*time.Minute), nil)
	if e.at != at {
		t.Error("all bans were walked over")
	}
}
