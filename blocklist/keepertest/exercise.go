// Package keepertest is the contract that every keeper of the shared block list has to pass.
package keepertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Exercise runs the contract. store returns, for a list that was never written, a function that opens
// one more keeper of it.
func Exercise(t *testing.T, store func(t *testing.T) (open func() blocklist.Keeper)) {
	for name, test := range map[string]func(t *testing.T, open func() blocklist.Keeper){
		"empty":            empty,
		"changes":          changes,
		"a bad change":     badChange,
		"what is missing":  missing,
		"expiry by itself": defaults,
		"undo":             undo,
		"trail":            trail,
		"a long trail":     longTrail,
		"automatic bans":   automatic,
		"watching":         watching,
		"several writers":  writers,
		"odd texts":        oddTexts,
	} {
		t.Run(name, func(t *testing.T) { test(t, store(t)) })
	}
}

// Rule reads the text form of a rule.
func Rule(t testing.TB, text string) blocklist.Rule {
	t.Helper()
	r, err := blocklist.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func apply(t testing.TB, k blocklist.Keeper, c blocklist.Change) uint64 {
	t.Helper()
	if c.By == "" {
		c.By = "tester"
	}
	version, err := k.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func put(t testing.TB, k blocklist.Keeper, texts ...string) uint64 {
	t.Helper()
	var c blocklist.Change
	for _, text := range texts {
		c.Put = append(c.Put, Rule(t, text))
	}
	return apply(t, k, c)
}

func load(t testing.TB, k blocklist.Keeper) blocklist.Content {
	t.Helper()
	content, err := k.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// names lists what a content holds: its mode, the names of its rules and the keys of its bans.
func names(c blocklist.Content) string {
	var bans []string
	for b := range c.Bans.All() {
		bans = append(bans, b.Key)
	}
	slices.Sort(bans)
	words := []string{c.Mode.String()}
	for _, r := range c.Rules {
		words = append(words, r.Name)
	}
	return strings.Join(append(words, bans...), " ")
}

func wantNames(t testing.TB, c blocklist.Content, want string) {
	t.Helper()
	if got := names(c); got != want {
		t.Fatalf("holds %q, want %q", got, want)
	}
}

func wantRefused(t testing.TB, err error, want string) {
	t.Helper()
	if !errors.Is(err, blocklist.ErrRefused) || !strings.Contains(err.Error(), want) {
		t.Fatalf("got error %v, want one that refuses and says %q", err, want)
	}
}

func empty(t *testing.T, open func() blocklist.Keeper) {
	content := load(t, open())
	wantNames(t, content, "enforce")
	if content.Version != 0 {
		t.Errorf("version %d", content.Version)
	}
	if all, err := open().Trail(t.Context(), 10); err != nil || len(all) > 0 {
		t.Errorf("trail %v, %v", all, err)
	}
}

func changes(t *testing.T, open func() blocklist.Keeper) {
	a, b := open(), open()
	far := time.Now().Add(time.Hour).UTC().Round(time.Millisecond)
	if v := put(t, a, "one path=/1", "two path=/2 note=x"); v != 1 {
		t.Errorf("first version %d", v)
	}
	off := blocklist.Off
	ban := blocklist.Ban{
		Key: "k", Origin: "login", Zone: "login", Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "login"}, Bits: 32, Parent: "p",
		Until: far, Forget: far.Add(time.Hour), Count: 2, Evidence: blocklist.Evidence{Reason: "5 in 1m", Status: 401, Hits: 5, Path: "/a b"},
	}
	apply(t, b, blocklist.Change{Mode: &off, Ban: []blocklist.Ban{ban}})
	v := apply(t, a, blocklist.Change{Remove: []string{"one"}, Put: []blocklist.Rule{Rule(t, "two path=/2 note=y")}})
	for _, k := range []blocklist.Keeper{a, b, open()} {
		content := load(t, k)
		wantNames(t, content, "off two k")
		if content.Version != v || v != 3 || content.Rules[0].Note != "y" {
			t.Errorf("version %d (%d), rule %s", content.Version, v, content.Rules[0])
		}
		got := content.Bans.Get(ban.ID())
		want := ban
		want.Since = got.Since
		if *got != want {
			t.Errorf("ban %s, want %s", got, &want)
		}
	}
	apply(t, b, blocklist.Change{Lift: []blocklist.BanID{ban.ID()}})
	wantNames(t, load(t, a), "off two")
}

func badChange(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	put(t, k, "one path=/1")
	good := Rule(t, "good path=/g")
	for want, bad := range map[string]blocklist.Rule{
		"must have a length":      {Name: "bad", Fields: []blocklist.Field{{Name: "client_ip", Patterns: []string{"10.0.0.0/99"}}}},
		"no field":                {Name: "bad", Fields: []blocklist.Field{{Name: "referer", Patterns: []string{"x"}}}},
		"is put twice":            good,
		"a rule is for all or fo": {Name: "bad", Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "z"}, Fields: []blocklist.Field{{Name: "path", Patterns: []string{"/"}}}},
	} {
		_, err := k.Apply(t.Context(), blocklist.Change{By: "x", Put: []blocklist.Rule{good, bad}})
		wantRefused(t, err, want)
	}
	_, err := k.Apply(t.Context(), blocklist.Change{By: "x"})
	wantRefused(t, err, "changes nothing")
	_, err = k.Apply(t.Context(), blocklist.Change{Put: []blocklist.Rule{good}})
	wantRefused(t, err, "by: must be")
	if content := load(t, k); content.Version != 1 {
		t.Errorf("version %d after changes that were refused", content.Version)
	}
	wantNames(t, load(t, k), "enforce one")
}

func missing(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	put(t, k, "one path=/1")
	id := blocklist.BanID{Origin: "o", Key: "nobody"}
	_, err := k.Apply(t.Context(), blocklist.Change{
		By: "x", Put: []blocklist.Rule{Rule(t, "two path=/2")}, Remove: []string{"one", "none"}, Lift: []blocklist.BanID{id},
	})
	wantRefused(t, err, `rule "none": there is no such rule`)
	wantRefused(t, err, `ban "nobody": there is no such ban of all by "o"`)
	wantNames(t, load(t, k), "enforce one")
}

func defaults(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	before := time.Now().Add(-time.Second)
	apply(t, k, blocklist.Change{By: "anna", Put: []blocklist.Rule{Rule(t, "a path=/1"), func() blocklist.Rule {
		r := Rule(t, "b path=/2")
		r.Expires = blocklist.Never
		return r
	}()}})
	rules := load(t, open()).Rules
	if a := rules[0]; a.Author != "anna" || a.Created.Before(before) || a.Expires.Sub(a.Created) != blocklist.DefaultLife {
		t.Errorf("%s", a)
	}
	if b := rules[1]; !b.Expires.Equal(blocklist.Never) {
		t.Errorf("%s", b)
	}
}

func undo(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	put(t, k, "one path=/1", "two path=/2")
	off := blocklist.Off
	ban := blocklist.Ban{Key: "k", Origin: "o", Until: time.Now().Add(time.Hour)}
	wrong := apply(t, k, blocklist.Change{
		Remove: []string{"one"}, Put: []blocklist.Rule{Rule(t, "two path=/3"), Rule(t, "three path=/3")}, Mode: &off, Ban: []blocklist.Ban{ban},
	})
	wantNames(t, load(t, k), "off three two k")
	back := apply(t, open(), blocklist.Change{Undo: wrong})
	content := load(t, k)
	wantNames(t, content, "enforce one two")
	if text := content.Rules[1].String(); !strings.HasPrefix(text, "two path=/2 ") {
		t.Errorf("two is %s", text)
	}
	// To undo the undoing is to do it again.
	apply(t, k, blocklist.Change{Undo: back})
	wantNames(t, load(t, k), "off three two k")

	put(t, k, "three path=/other")
	_, err := k.Apply(t.Context(), blocklist.Change{By: "x", Undo: wrong})
	wantRefused(t, err, `rule "three": was changed again since`)
	_, err = k.Apply(t.Context(), blocklist.Change{By: "x", Undo: 99})
	wantRefused(t, err, "there is no record of this change")
}

func trail(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	for i := range 5 {
		apply(t, k, blocklist.Change{By: "anna", Why: fmt.Sprint("reason ", i), Put: []blocklist.Rule{Rule(t, fmt.Sprintf("r%d path=/%d", i, i))}})
	}
	all, err := open().Trail(t.Context(), 3)
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	for i, rec := range all {
		c := rec.Change
		if rec.Version != uint64(5-i) || c.By != "anna" || c.Why != fmt.Sprint("reason ", 4-i) || time.Since(c.At) > time.Hour ||
			len(c.Put) != 1 || c.Put[0].Name != fmt.Sprint("r", 4-i) || len(rec.Undo.Remove) != 1 {
			t.Errorf("record %d is %s", i, rec)
		}
	}
}

// longRule is a rule whose text form has about so many bytes.
func longRule(t *testing.T, name string, bytes int) blocklist.Rule {
	t.Helper()
	pattern := " path=/" + strings.Repeat("x", 1000)
	return Rule(t, name+strings.Repeat(pattern, bytes/len(pattern)))
}

// A trail is bounded by its bytes as well, but for the last change, which can always be taken back.
func longTrail(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	const changes = 24
	for i := range changes {
		apply(t, k, blocklist.Change{Put: []blocklist.Rule{longRule(t, fmt.Sprint("r", i), blocklist.MaxTrailBytes/16)}})
	}
	wantTrail := func(least, most int) {
		t.Helper()
		version := load(t, k).Version
		all, err := open().Trail(t.Context(), 1000)
		if err != nil || len(all) < least || len(all) > most {
			t.Fatalf("after %d changes the trail has %d records, %v, want %d to %d", version, len(all), err, least, most)
		}
		for i := range all {
			if all[i].Version != version-uint64(i) {
				t.Errorf("record %d of version %d leads to version %d", i, version, all[i].Version)
			}
		}
	}
	wantTrail(12, 16)
	huge := []blocklist.Rule{longRule(t, "huge", blocklist.MaxTrailBytes*2/3), longRule(t, "huger", blocklist.MaxTrailBytes*2/3)}
	version := apply(t, k, blocklist.Change{Put: huge})
	wantTrail(1, 1)
	apply(t, k, blocklist.Change{Undo: version})
	if n := len(load(t, k).Rules); n != changes {
		t.Errorf("%d rules after the last change was taken back", n)
	}
	for i := range 3 {
		put(t, k, fmt.Sprintf("small%d path=/%d", i, i))
	}
	wantTrail(3, 4) // and the undo, if there is room for it
}

func automatic(t *testing.T, open func() blocklist.Keeper) {
	a, b := open(), open()
	now := time.Now().UTC().Round(time.Millisecond)
	ban := func(key string, lasts time.Duration) blocklist.Ban {
		return blocklist.Ban{Zone: "z", Origin: "z", Key: key, Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: "z"}, Until: now.Add(lasts)}
	}
	auto := func(k blocklist.Keeper, bans ...blocklist.Ban) {
		apply(t, k, blocklist.Change{By: "zone z", Auto: true, Ban: bans})
	}
	auto(a, ban("x", time.Hour), ban("y", time.Minute))
	// Two nodes ban at once: the later end wins, whoever comes last.
	auto(b, ban("x", time.Minute), ban("y", time.Hour))
	content := load(t, a)
	for _, key := range []string{"x", "y"} {
		b := ban(key, 0)
		if got := content.Bans.Get(b.ID()); got == nil || !got.Until.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: %v", key, got)
		}
	}
	// An operator may shorten.
	apply(t, a, blocklist.Change{By: "anna", Ban: []blocklist.Ban{ban("x", time.Minute)}})
	b1 := ban("x", 0)
	if got := load(t, b).Bans.Get(b1.ID()); !got.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("shortened: %v", got)
	}
	if all, err := a.Trail(t.Context(), 10); err != nil || len(all) != 1 || all[0].Change.By != "anna" {
		t.Errorf("trail %v, %v", all, err)
	}
	_, err := a.Apply(t.Context(), blocklist.Change{By: "x", Auto: true, Put: []blocklist.Rule{Rule(t, "r path=/")}})
	wantRefused(t, err, "auto: is for bans alone")
}

func watching(t *testing.T, open func() blocklist.Keeper) {
	a := open()
	put(t, a, "one path=/1")
	w := Follow(t, open())
	w.Await(t, "what was there", func(c blocklist.Content) bool { return names(c) == "enforce one" })
	put(t, a, "two path=/2")
	c := w.Await(t, "a rule", func(c blocklist.Content) bool { return c.Version == 2 })
	one := c.Rules[0]
	ban := blocklist.Ban{Key: "k", Origin: "o", Until: time.Now().Add(time.Hour)}
	apply(t, a, blocklist.Change{Ban: []blocklist.Ban{ban}})
	c = w.Await(t, "a ban", func(c blocklist.Content) bool { return names(c) == "enforce one two k" })
	if c.Rules[0] != one {
		t.Error("a ban made a rule anew")
	}
	off := blocklist.Off
	apply(t, a, blocklist.Change{Mode: &off, Remove: []string{"one"}, Lift: []blocklist.BanID{ban.ID()}})
	c = w.Await(t, "all at once", func(c blocklist.Content) bool { return c.Version == 4 })
	wantNames(t, c, "off two")
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.IsSorted(w.seen) {
		t.Errorf("versions went back: %v", w.seen)
	}
}

func writers(t *testing.T, open func() blocklist.Keeper) {
	const nodes, each = 4, 15
	w := Follow(t, open())
	var wait sync.WaitGroup
	versions := make(chan uint64, nodes*each)
	for n := range nodes {
		k := open()
		wait.Go(func() {
			for i := range each {
				name := fmt.Sprintf("n%d-%d", n, i)
				v, err := k.Apply(t.Context(), blocklist.Change{By: name, Put: []blocklist.Rule{Rule(t, name+" path=/"+name)}})
				if err != nil {
					t.Error(err)
				}
				versions <- v
			}
		})
	}
	wait.Wait()
	close(versions)
	seen := make(map[uint64]bool)
	for v := range versions {
		if seen[v] {
			t.Errorf("version %d was made twice", v)
		}
		seen[v] = true
	}
	c := w.Await(t, "all of them", func(c blocklist.Content) bool { return c.Version == nodes*each })
	if want := load(t, open()); names(c) != names(want) || len(c.Rules) != nodes*each {
		t.Errorf("was told of %d rules, there are %d", len(c.Rules), len(want.Rules))
	}
}

func oddTexts(t *testing.T, open func() blocklist.Keeper) {
	k := open()
	odd := `a "b" {c}` + "\\ é %s #="
	r := blocklist.Rule{Name: odd, Note: odd, Fields: []blocklist.Field{{Name: "user_agent", Patterns: []string{"a\nb\x00\xff*", odd}}}}
	ban := blocklist.Ban{Key: odd, Origin: odd, Note: odd, Zone: odd, Scope: blocklist.Scope{Kind: blocklist.ScopeZone, Name: odd}, Until: time.Now().Add(time.Hour).UTC()}
	v := apply(t, k, blocklist.Change{By: odd, Why: odd, Put: []blocklist.Rule{r}, Ban: []blocklist.Ban{ban}})
	w := Follow(t, open())
	c := w.Await(t, "odd texts", func(c blocklist.Content) bool { return c.Version == v })
	if got := c.Rules[0]; got.Name != odd || got.Note != odd || got.Fields[0].Patterns[0] != "a\nb\x00\xff*" {
		t.Errorf("rule %s", got)
	}
	if got := c.Bans.Get(ban.ID()); got == nil || got.Note != odd {
		t.Errorf("ban %v", got)
	}
	all, err := k.Trail(t.Context(), 1)
	if err != nil || all[0].Change.Why != odd || all[0].Change.By != odd {
		t.Errorf("trail %v, %v", all, err)
	}
	apply(t, k, blocklist.Change{Undo: v})
	wantNames(t, load(t, open()), "enforce")
}
