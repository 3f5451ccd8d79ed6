package week

import (
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/weirhq/caddy-weir"
)

func play(t *testing.T, o Options) *Result {
	t.Helper()
	o.Dir, o.Precompressed = t.TempDir(), true
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWeek plays two days of a small blog: the zone refuses nobody who is polite, and spares what
// careless readers would have taken. T19 and T43 are in it: services that ask for many, dozens of
// kinds of readers, and a few clients that make most of the requests.
func TestWeek(t *testing.T) {
	r := play(t, Options{Subscribers: 500, Span: 2 * 24 * time.Hour, Seed: 1})
	for m := range allManners {
		without, clients := r.Of(Without, m)
		with, _ := r.Of(With, m)
		t.Logf("%s: %d clients, %d requests without and %d with, %d arrived, %d and %d kB, %d refused", m, clients,
			without.Requests, with.Requests, with.Arrived, without.Bytes()/1000, with.Bytes()/1000, with.Refused)
		if without.Refused > 0 || without.Arrived != without.Requests {
			t.Errorf("without: %d of %d refused, %d arrived", without.Refused, without.Requests, without.Arrived)
		}
	}
	all, _ := r.All(With)
	if all.PolitePolls < 4000 || all.PoliteRefused > 0 || all.Joining < 6 || all.JoiningRefused > 0 {
		t.Errorf("%d of %d polite polls refused, %d of %d who subscribe", all.PoliteRefused, all.PolitePolls, all.JoiningRefused, all.Joining)
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		without, with := &o.Worlds[Without], &o.Worlds[With]
		if o.Kind.Manners() == Careless {
			continue
		}
		if with.Refused > 0 || with.GaveUp > 0 || with.Missed > without.Missed || o.Kind.Heeds == 0 && with.Delay(1) > without.Delay(1)+Interval {
			t.Errorf("%s: %d refused, %d gave up, %d news missed and %d without, the last after %s and %s without",
				o.Kind.Name, with.Refused, with.GaveUp, with.Missed, without.Missed, with.Delay(1), without.Delay(1))
		}
	}
	without, _ := r.Of(Without, Careless)
	with, _ := r.Of(With, Careless)
	if saved := Saved(&without, &with); saved < 0.8 {
		t.Errorf("%.1f %% of the careless bytes saved", 100*saved)
	}
}

// The same seed makes the same week, another one another week.
func TestWeekBySeed(t *testing.T) {
	o := Options{Subscribers: 100, Span: 6 * time.Hour, Seed: 7}
	sum := func(r *Result) (s [2]Count) {
		for w := range s {
			s[w], _ = r.All(World(w))
		}
		return s
	}
	first, again := sum(play(t, o)), sum(play(t, o))
	o.Seed = 8
	other := sum(play(t, o))
	for w := range first {
		a, b, c := first[w], again[w], other[w]
		if a.Requests != b.Requests || a.Bytes() != b.Bytes() || a.Delay(0.5) != b.Delay(0.5) {
			t.Errorf("%s: %d and %d requests, %d and %d bytes", World(w), a.Requests, b.Requests, a.Bytes(), b.Bytes())
		}
		if a.Requests == c.Requests && a.Bytes() == c.Bytes() {
			t.Errorf("%s: another seed makes the same %d requests", World(w), a.Requests)
		}
	}
}

// Kinds are as their table says: 10,000 subscribers, each of a name, agent and source.
func TestKinds(t *testing.T) {
	subscribers, seen := 0, map[string]bool{}
	for i := range Kinds {
		k := &Kinds[i]
		subscribers += k.Clients * k.Each
		if k.Name == "" || seen[k.Name] || k.Source == "" || k.Agent == "" || k.Clients < 1 || k.Every[0] <= 0 || k.Every[1] < k.Every[0] {
			t.Errorf("%+v", k)
		}
		if (k.Each > 1) != strings.Contains(k.Agent, "%d") {
			t.Errorf("%s: %d subscribers each, and the agent %q", k.Name, k.Each, k.Agent)
		}
		seen[k.Name] = true
	}
	if subscribers != 10_000 {
		t.Errorf("%d subscribers", subscribers)
	}
}

func TestReactions(t *testing.T) {
	r := newReader(member{}, Options{Subscribers: 100, Span: time.Hour}, validators{})
	for name, c := range map[string]struct {
		does        Reaction
		told, usual time.Duration
		failures    int
		wait        time.Duration
		gone        bool
	}{
		"as told":                {does: heeds(week, time.Minute), told: 5 * time.Hour, usual: time.Hour, wait: 5 * time.Hour},
		"told nothing":           {does: heeds(week, 10*time.Minute), usual: time.Minute, wait: 10 * time.Minute},
		"at most so long":        {does: heeds(8*time.Hour, 0), told: 20 * time.Hour, usual: time.Hour, wait: 8 * time.Hour},
		"never sooner":           {does: heeds(week, 0), told: time.Minute, usual: time.Hour, wait: time.Hour},
		"whatever it is told":    {does: between(300*time.Second, 300*time.Second), told: 5 * time.Hour, usual: time.Hour, wait: 300 * time.Second},
		"twice":                  {does: thrice(heeds(week, 0)), told: time.Hour, usual: time.Hour, failures: 2, wait: time.Hour},
		"three times in a row":   {does: thrice(heeds(week, 0)), told: time.Hour, usual: time.Hour, failures: 3, wait: time.Hour, gone: true},
		"once, and never again!": {does: forever, told: time.Minute, usual: time.Hour, wait: time.Hour, gone: true},
	} {
		r.failures = c.failures
		if wait, gone := c.does(r, c.told, c.usual); wait != c.wait || gone != c.gone {
			t.Errorf("%s: waits %s, gone %v", name, wait, gone)
		}
	}
}

// Devices that are off do not ask.
func TestAwake(t *testing.T) {
	r := newReader(member{}, Options{Subscribers: 100, Span: time.Hour}, validators{})
	for _, c := range []struct {
		awake     [2]int
		at        time.Duration
		from, til time.Duration
	}{
		{[2]int{}, 3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		{[2]int{7, 23}, 22 * time.Hour, 22 * time.Hour, 22 * time.Hour},
		{[2]int{7, 23}, 3 * time.Hour, 7 * time.Hour, 8 * time.Hour},
		{[2]int{7, 23}, 23 * time.Hour, 31 * time.Hour, 32 * time.Hour},
	} {
		k := Kind{Awake: c.awake}
		r.Kind = &k
		if got := r.awake(Begin.Add(c.at)).Sub(Begin); got < c.from || got > c.til {
			t.Errorf("%v at %s: %s", c.awake, c.at, got)
		}
	}
}
