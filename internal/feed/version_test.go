package feed

import (
	"net/http"
	"testing"
	"time"
)

// TestLearnAged: a version that nobody has seen is the current one, unless the answer that shows it is older than
// the newest answer that showed another, be that of a cache or of the site.
func TestLearnAged(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	type answer struct {
		asked  time.Duration // since the start
		tag    string
		age    string // empty for one of the site itself
		status int
	}
	for name, c := range map[string]struct {
		seen []answer
		then answer
		want bool // whether what is shown then is current
	}{
		"older than the first answer": {[]answer{{0, `"b"`, "", 200}}, answer{time.Hour, `"a"`, "3601", 200}, false},
		"newer than it":               {[]answer{{0, `"b"`, "", 200}}, answer{time.Hour, `"c"`, "3599", 200}, true},
		"older than a confirmation": {
			[]answer{{0, `"b"`, "", 200}, {2 * time.Hour, `"b"`, "", 304}}, answer{2 * time.Hour, `"a"`, "3600", 200}, false,
		},
		"newer than it, by Age": {
			[]answer{{0, `"b"`, "", 200}, {2 * time.Hour, `"b"`, "", 304}}, answer{3 * time.Hour, `"c"`, "3599", 200}, true,
		},
		"newer than a cache's answer that came first": {[]answer{{0, `"b"`, "3600", 200}}, answer{0, `"c"`, "1800", 200}, true},
		"older than it": {[]answer{{0, `"b"`, "3600", 200}}, answer{0, `"a"`, "3601", 200}, false},
		"of the site":   {[]answer{{time.Hour, `"b"`, "", 200}}, answer{0, `"c"`, "", 200}, true},
	} {
		f := new(state)
		learn := func(a answer) uint64 {
			h := http.Header{"Etag": {a.tag}}
			if a.age != "" {
				h.Set("Age", a.age)
			}
			// Tags of two codings could be one version's: a date says that they are not.
			h.Set("Last-Modified", start.Add(-time.Hour*time.Duration(a.tag[1])).Format(http.TimeFormat))
			return f.learn(a.status, h, start.Add(a.asked))
		}
		var before uint64
		for _, a := range c.seen {
			before = learn(a)
		}
		shown := learn(c.then)
		if shown == before || (shown == f.current()) != c.want || (before == f.current()) == c.want {
			t.Errorf("%s: version %d was seen, then %d; current is %d", name, before, shown, f.current())
		}
	}
}
