package blocklist

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func zoneScope(name string) Scope { return Scope{ScopeZone, name} }

// A set of bans does what a plain map does (L124, B17: each origin for itself), and sets that were made before stay what they were.
func TestBansAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	plain := map[BanID]*Ban{}
	var set, early Bans
	var earlyLen int
	for step := range 5000 {
		b := &Ban{
			Key: fmt.Sprint("k", random.IntN(300)), Origin: pick(random, "a", "b"), Parent: pick(random, "", "p1", "p2"),
			Scope: pick(random, Scope{}, zoneScope("login"), Scope{ScopeSite, "example.com"}), Bits: pick(random, 0, 32, 64),
			Until: noon.Add(time.Duration(random.IntN(100)) * time.Second),
		}
		e := set.edit()
		if random.IntN(3) == 0 {
			e.lift(b.ID())
			delete(plain, b.ID())
		} else {
			e.put(b)
			plain[b.ID()] = b
		}
		set = e.next
		if step == 1000 {
			early, earlyLen = set, len(plain)
		}
	}
	if set.Len() != len(plain) || early.Len() != earlyLen {
		t.Fatalf("%d bans, want %d; before %d, want %d", set.Len(), len(plain), early.Len(), earlyLen)
	}
	count := 0
	for b := range early.All() {
		count++
		if early.Get(b.ID()) != b {
			t.Fatalf("%s is not found", b)
		}
	}
	if count != earlyLen {
		t.Errorf("%d of %d are left of what was before", count, earlyLen)
	}
	now := noon.Add(50 * time.Second)
	var zone, others, children int
	lengths := [129]int{}
	for id, b := range plain {
		if set.Get(id) != b {
			t.Fatalf("%s is not found", b)
		}
		var want *Ban
		for _, o := range plain {
			if o.Key == b.Key && o.Scope == b.Scope && o.Until.After(now) && (want == nil || o.Until.After(want.Until)) {
				want = o
			}
		}
		if got := set.Find(b.Scope, b.Key, now); got != want && (got == nil || want == nil || !got.Until.Equal(want.Until)) {
			t.Errorf("%s: found %v, want %v", b.Key, got, want)
		}
		if b.Scope.Kind == ScopeZone {
			zone++
		} else {
			others++
			lengths[b.Bits]++
		}
		if b.Scope == zoneScope("login") && b.Parent == "p1" && !b.Over(now) {
			children++
		}
	}
	lengths[0] = 0
	if set.Zone("login") != zone || set.others != others || set.lengths != lengths || set.Children(zoneScope("login"), "p1", now) != children {
		t.Errorf("counts %d of zone (%d), %d others (%d), %d children (%d)", set.Zone("login"), zone, set.others, others, set.Children(zoneScope("login"), "p1", now), children)
	}
	swept := set.Sweep(now)
	for b := range swept.All() {
		if b.Over(now) {
			t.Errorf("%s is over and still there", b)
		}
	}
	// B10: of too many those go that end first.
	few := set.bound(10)
	if few.Len() != 10 {
		t.Errorf("%d bans", few.Len())
	}
	first := noon.Add(time.Hour)
	for b := range few.All() {
		if b.Until.Before(first) {
			first = b.Until
		}
	}
	later := 0
	for _, b := range plain {
		if b.Until.After(first) {
			later++
		}
	}
	if later > 10 {
		t.Errorf("%d bans end after one that was kept", later)
	}
}

// What ended is remembered as long as its maker wants.
func TestForget(t *testing.T) {
	b := Ban{Key: "k", Origin: "o", Until: noon, Forget: noon.Add(time.Hour)}
	set := BansOf(&b)
	if set.Find(Scope{}, "k", noon) != nil || set.Sweep(noon).Get(b.ID()) == nil || set.Sweep(noon.Add(time.Hour)).Len() != 0 {
		t.Error("is in force, or forgotten")
	}
}

func TestBanText(t *testing.T) {
	full := Ban{
		Zone: "log in", Scope: Scope{ScopeSite, "example.com"}, Key: "a b", Bits: 64, Parent: "p", Since: noon, Until: noon.Add(time.Hour),
		Forget: noon.Add(2 * time.Hour), Count: 3, Origin: "log in", Note: "x y",
		Evidence: Evidence{Reason: "5 in 1m", Host: "h", Path: "/ü", UserAgent: "a\"b", Status: 401, Hits: 5, At: noon, Client: "192.0.2.1"},
	}
	for _, b := range []Ban{full, {Key: "k", Origin: "o", Until: noon}} {
		back, err := ParseBan(b.String())
		if err != nil || !reflect.DeepEqual(back, b) {
			t.Errorf("%s\nread as %#v (%v)\nwant    %#v", &b, back, err, b)
		}
		id, err := ParseBanID(b.ID().String())
		if err != nil || id != b.ID() {
			t.Errorf("ID %s read as %v, %v", b.ID(), id, err)
		}
	}
	for line, want := range map[string]string{
		"k until=2026-12-24T18:00:00Z":                       "origin: must be",
		"k origin=o":                                         "until: must be a time",
		"k origin=o until=tomorrow":                          `until: must be a time as in RFC 3339, got "tomorrow"`,
		"k origin=o until=2026-12-24T18:00:00Z bits=129":     "bits: must be from 0 to 128, got 129",
		"k origin=o until=2026-12-24T18:00:00Z hits=many":    `hits: must be a whole number, got "many"`,
		"k origin=o until=2026-12-24T18:00:00Z shape=round":  "shape: is no word of a ban",
		"k origin=o until=2026-12-24T18:00:00Z scope=planet": "scope: must be all, site:NAME or zone:NAME",
	} {
		if _, err := ParseBan(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// What a client wrote is made fit to be kept.
func TestEvidenceFits(t *testing.T) {
	e := Evidence{UserAgent: "a\nb\x00\xff" + strings.Repeat("é", 500), Path: "/ok"}
	e.Fit()
	b := Ban{Key: "k", Origin: "o", Until: noon, Evidence: e}
	if err := b.Check(); err != nil || len(e.UserAgent) > MaxEvidence || e.Path != "/ok" {
		t.Errorf("%q: %v", e.UserAgent, err)
	}
}

func FuzzBanText(f *testing.F) {
	f.Add(`k origin=o until=2026-12-24T18:00:00Z scope=zone:a count=2 reason="x y"`)
	f.Add(`"a b" origin="" until=2026-12-24T18:00:00.5+01:00 bits=64 scope=site:Example.com`)
	f.Add(`k origin=o until=0001-01-01T00:00:00Z hits=-1`)
	f.Fuzz(func(t *testing.T, line string) {
		b, err := ParseBan(line)
		if err != nil {
			return
		}
		back, err := ParseBan(b.String())
		if err != nil || !reflect.DeepEqual(back, b) {
			t.Errorf("%s\nread as %#v (%v)\nwant    %#v", &b, back, err, b)
		}
		if id, err := ParseBanID(b.ID().String()); err != nil || id != b.ID() {
			t.Errorf("ID %s read as %v, %v", b.ID(), id, err)
		}
	})
}

// BenchmarkBan measures one ban among a million.
func BenchmarkBan(b *testing.B) {
	e := Bans{}.edit()
	for i := range 1_000_000 {
		e.put(&Ban{Key: fmt.Sprint("k", i), Origin: "o", Scope: zoneScope("z"), Until: noon})
	}
	set := e.next
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			e := set.edit()
			e.put(&Ban{Key: fmt.Sprint("n", i), Origin: "o", Scope: zoneScope("z"), Until: noon})
		}
	})
	b.Run("find", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			set.Find(zoneScope("z"), "k77777", noon.Add(-1))
		}
	})
}
