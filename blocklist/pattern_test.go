package blocklist

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestPattern(t *testing.T) {
	for pattern, texts := range map[string]map[string]bool{
		"Feedly/*":  {"Feedly/1.0 (x)": true, "Feedly/": true, "feedly/1.0": false, "x Feedly/1.0": false, "": false},
		"*Feedly*":  {"x Feedly/1.0": true, "x feedly": false},
		"iTMS":      {"iTMS": true, "itms": false, "iTMS/2": false},
		"*":         {"": true, "x": true},
		"a?[b].*+c": {"a?[b].x+c": true, "ab.x+c": false},
	} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if got := p.Match([]byte(text)); got != want {
				t.Errorf("%s: %q: %v", pattern, text, got)
			}
		}
		if p.Any() != (pattern == "*") {
			t.Errorf("%s: any is %v", pattern, p.Any())
		}
	}
	if (Pattern{}).Match(nil) || (Pattern{}).Any() {
		t.Error("the zero pattern fits something")
	}
	if _, err := ParsePattern(strings.Repeat("a*", MaxStars+1)); err == nil {
		t.Error("too many stars are taken")
	}
}

// TestFindByOthers: what the zone's own counting made does not count, whatever it hides.
func TestFindByOthers(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	zone, other := Scope{Kind: ScopeZone, Name: "feeds"}, Scope{Kind: ScopeZone, Name: "login"}
	ban := func(scope Scope, by, origin, note string, d time.Duration) *Ban {
		return &Ban{Scope: scope, Zone: by, Origin: origin, Key: "k", Note: note, Until: now.Add(d)}
	}
	own, early, late := ban(zone, "feeds", "feeds", "own", 9*time.Hour), ban(zone, "", "ada", "early", time.Hour), ban(zone, "", "feeds", "late", 2*time.Hour)
	for name, c := range map[string]struct {
		bans []*Ban
		want string
	}{
		"none":               {nil, ""},
		"the zone's own":     {[]*Ban{own}, ""},
		"an operator's":      {[]*Ban{own, early}, "early"},
		"of two the latest":  {[]*Ban{early, own, late}, "late"},
		"one that is over":   {[]*Ban{ban(zone, "", "ada", "over", -time.Second), own}, ""},
		"for another zone":   {[]*Ban{ban(other, "", "ada", "other", time.Hour)}, ""},
		"made by other zone": {[]*Ban{own, ban(zone, "login", "login", "login's", time.Hour)}, "login's"},
	} {
		got := ""
		if b := BansOf(c.bans...).FindByOthers("feeds", "k", now); b != nil {
			got = b.Note
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if b := (Bans{}).FindByOthers("feeds", "k", now); b != nil {
		t.Errorf("none: %v", b)
	}
}

func TestNewPrefixes(t *testing.T) {
	set := NewPrefixes([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")})
	for a, want := range map[string]bool{"192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.3.7": false, "2001:db8::1": true, "2001:db9::1": false} {
		if got := set.Contains(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
	if NewPrefixes(nil).Contains(netip.MustParseAddr("192.0.2.7")) {
		t.Error("an empty set holds something")
	}
}
