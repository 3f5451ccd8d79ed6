package redislist

import (
	"fmt"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		server, ours string
		version      uint64
		want         bool
	}{
		{"a", "a", 7, true},
		{"b", "a", 7, false},
		{"", "a", 7, false},
		{"b,a@7", "a", 7, true},
		{"b,a@7", "a", 3, true},  // we were away
		{"b,a@7", "a", 8, false}, // they were
		{"c,b@2,a@7", "a", 7, true},
		{"c,b@2,a@7", "b,a@7", 2, true},
		{"b,c@9,a@7", "b,a@7", 2, true},
		{"b", "b,a@7", 2, false}, // a replica without the end of what was given
		{"b,a@6", "b,a@7", 2, false},
		{"a", "b,a@7", 2, false}, // an old backup
	} {
		if got := isIn(c.server, c.ours, c.version); got != c.want {
			t.Errorf("%q at %d is in %q: %v", c.ours, c.version, c.server, got)
		}
	}
	for _, c := range []struct {
		line, ours string
		version    uint64
		want       string
	}{
		{"b", "a", 7, "b,a@7"},
		{"b,a@7", "a", 9, "b,a@9"},
		{"b,a@7", "a", 5, "b,a@7"},
		{"c,a@9", "b,a@7", 3, "c,b@3,a@9"},
		{"b", "b,a@7", 3, "b,a@7"},
		{"b", "", 3, "b"},
	} {
		got := withGiven(c.line, c.ours, c.version)
		if got != c.want || c.ours != "" && !isIn(got, c.ours, c.version) {
			t.Errorf("%q given %q at %d is %q, want %q", c.line, c.ours, c.version, got, c.want)
		}
	}
	line := "n0"
	for i := range 100 {
		line = withGiven(fmt.Sprintf("n%d", i+1), line, uint64(i+1))
	}
	if n := strings.Count(line, ","); n != maxLine-1 || !isIn(line, "n99", 100) {
		t.Errorf("%q", line)
	}
	if a, b := newLine(), newLine(); a == b || strings.ContainsAny(a, ",@* ") {
		t.Errorf("%q, %q", a, b)
	}
}
