package source

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// wide is a list of n networks of /8, from an address on.
func wide(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d.0.0.0/8\n", first+i)
	}
	return b.String()
}

func TestCoverOf(t *testing.T) {
	for text, want := range map[string]cover{
		"":                                {},
		"20.0.0.0/8":                      {v4: 1},
		"20.0.0.0/8\n20.1.0.0/16":         {v4: 1}, // in it already
		"20.0.0.0/9\n21.0.0.0/10":         {v4: 0.75},
		"20.0.0.1":                        {v4: 1.0 / (1 << 24)},
		"2a00::/19\n2c00::/20\n2c00::/32": {v6: 1.5},
		"2a00::1":                         {v6: math.Ldexp(1, 19-128)},
		"20.0.0.0/8\n2a00::/19":           {v4: 1, v6: 1},
	} {
		p, err := Parse(strings.NewReader(text+"\n# end\n"), Plain, Limits{})
		if got := coverOf(p.Prefixes); err != nil || got != want {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, err)
		}
	}
	// Of ranges that end at different times the wider may be listed too.
	all := []netip.Prefix{netip.MustParsePrefix("20.0.0.0/8"), netip.MustParsePrefix("20.0.0.0/9"), netip.MustParsePrefix("20.0.0.1/32"), netip.MustParsePrefix("21.0.0.0/8")}
	if got := coverOf(all); got != (cover{v4: 2}) {
		t.Errorf("%v", got)
	}
}

// A list that covers too much, or suddenly far more than before, leaves the one before in force.
func TestListThatCoversFarMore(t *testing.T) {
	everything := wide(0, 256)
	for _, c := range []struct {
		name, before, text string
		options            Options
		want               string // of the error; empty if the list is taken
	}{
		{"all addresses in pieces", "198.51.100.0/24\n", everything, Options{}, "covers as much of IPv4 as 220.67 networks of /8, 86.2 % of all addresses, and at most 16 are taken: raise max_cover if that is meant"},
		{"that with what is private", "198.51.100.0/24\n", everything, Options{KeepPrivate: true}, "covers as much of IPv4 as 256 networks of /8, 100 % of all addresses"},
		{"that in yet smaller pieces", "198.51.100.0/24\n", inHalves(everything), Options{}, "covers as much of IPv4 as 220.67 networks"},
		{"that may grow", "198.51.100.0/24\n", everything, Options{AcceptGrown: true}, "at most 16 are taken"},
		{"that may cover it", "198.51.100.0/24\n", everything, Options{MaxCover: AnyCover}, "and covered less than 0.01 before: it stays as it was; set accept_grown if that is meant"},
		{"that may both", "198.51.100.0/24\n", everything, Options{MaxCover: AnyCover, AcceptGrown: true}, ""},
		{"as much as may be", wide(20, 8), wide(20, 16), Options{}, ""},
		{"a little more", wide(20, 16), wide(20, 17), Options{}, "covers as much of IPv4 as 17 networks"},
		{"more than twice", wide(20, 2), wide(20, 5), Options{}, "as 5 networks of /8, 1.95 % of all addresses, and covered 2 before"},
		{"twice", wide(20, 2), wide(20, 4), Options{}, ""},
		{"a small list that grows", "198.51.100.0/24\n", wide(20, 1), Options{}, ""},
		{"IPv6", "2001:db8::/32\n20.0.0.0/8\n", "2a00::/18\n20.0.0.0/8\n", Options{Limits: Limits{Broad: true}}, "covers as much of IPv6 as 2 networks of /19, less than 0.01 % of all addresses, and covered less than 0.01 before"},
		{"much of IPv6", "2001:db8::/32\n", "2a00::/12\n", Options{Limits: Limits{Broad: true}, AcceptGrown: true}, "covers as much of IPv6 as 128 networks of /19"},
		{"all of IPv6 that is in use", "2001:db8::/32\n", "2000::/3\n", Options{Limits: Limits{Broad: true}, AcceptGrown: true, MaxCover: AnyCover}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "list")
				write(t, path, c.before)
				var w watcher
				s := File(path, c.options)
				w.start(t, s)
				if len(w.lists) != 1 {
					t.Fatalf("the first was not taken: %s", s.Status().Error)
				}
				write(t, path, c.text)
				after(10 * time.Second)
				if got := s.Status().Error; c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
				if taken := len(w.lists) == 2; taken != (c.want == "") {
					t.Errorf("taken: %v", taken)
				}
			})
		})
	}
}

// inHalves is a list of networks of /8 as one of /9.
func inHalves(list string) string {
	var b strings.Builder
	for line := range strings.Lines(list) {
		first, _, _ := strings.Cut(line, ".")
		fmt.Fprintf(&b, "%s.0.0.0/9\n%s.128.0.0/9\n", first, first)
	}
	return b.String()
}

// At the start nobody knows how a list has grown, but how much it covers.
func TestFirstListCoversTooMuch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	write(t, path, wide(20, 16))
	if _, err := File(path, Options{}).Load(); err != nil {
		t.Error(err)
	}
	write(t, path, wide(20, 17))
	if _, err := File(path, Options{}).Load(); err == nil || !strings.Contains(err.Error(), "raise max_cover") {
		t.Errorf("%v", err)
	}
}

// What ends by itself is missed by nobody, and may come back.
func TestCoverOfWhatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ban := "create bad hash:net family inet timeout 0\nadd bad 198.51.100.1\n"
		for i := range 5 {
			ban += fmt.Sprintf("add bad %d.0.0.0/8 timeout 600\n", 20+i)
		}
		path := filepath.Join(t.TempDir(), "list")
		write(t, path, ban)
		var w watcher
		s := File(path, Options{})
		w.start(t, s)
		after(time.Hour)
		if w.last() != "198.51.100.1/32" {
			t.Fatalf("after the end: %s", w.last())
		}
		write(t, path, ban)
		after(10 * time.Second)
		if st := s.Status(); st.Error != "" || st.Prefixes != 6 {
			t.Errorf("%d prefixes, %s", st.Prefixes, st.Error)
		}
	})
}
