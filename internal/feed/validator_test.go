package feed

import (
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func at(offset time.Duration) time.Time { return noon.Add(offset) }

// header is made of names and values in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// seen is a feed of which these answers of status 200 went by.
func seen(answers ...http.Header) *state {
	f := new(state)
	for i, h := range answers {
		f.learn(200, h, at(time.Duration(i)*time.Hour))
	}
	return f
}

const (
	monday  = "Mon, 02 Mar 2026 08:00:00 GMT"
	tuesday = "Tue, 03 Mar 2026 08:00:00 GMT"
)

// TestJudge: what validators prove (A1). The answers of Caddy's file server are those of the
// table in docs/feeds.md.
func TestJudge(t *testing.T) {
	two := seen(header("Etag", `"a"`, "Last-Modified", monday), header("Etag", `"b-gzip"`, "Last-Modified", tuesday))
	tests := []struct {
		name string
		feed *state
		h    http.Header
		want proof
	}{
		{"none", two, nil, noProof},
		{"current", two, header("If-None-Match", `"b"`), currentProof},
		{"a coding's", two, header("If-None-Match", `"b-zstd"`), currentProof},
		{"weak", two, header("If-None-Match", `W/"b-gzip"`), currentProof},
		{"a list", two, header("If-None-Match", `"x", "a" ,W/"b"`), currentProof},
		{"two lines", two, header("If-None-Match", `"x"`, "If-None-Match", `"b"`), currentProof},
		{"old", two, header("If-None-Match", `"a"`), oldProof},
		{"never ours", two, header("If-None-Match", `"c"`), madeUp},
		{"star", two, header("If-None-Match", `*`), madeUp},
		{"unquoted", two, header("If-None-Match", `b`), madeUp},
		{"not closed", two, header("If-None-Match", `"b`), madeUp},
		{"empty", two, header("If-None-Match", ``), madeUp},
		{"unquoted, then a tag", two, header("If-None-Match", `x, "b"`), currentProof},
		{"current date", two, header("If-Modified-Since", tuesday), currentProof},
		{"the same date in another form", two, header("If-Modified-Since", "Tuesday, 03-Mar-26 08:00:00 GMT"), currentProof},
		{"old date", two, header("If-Modified-Since", monday), oldProof},
		{"other date", two, header("If-Modified-Since", "Sun, 01 Mar 2026 08:00:00 GMT"), madeUp},
		{"date to come", two, header("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"), madeUp},
		{"date with an offset", two, header("If-Modified-Since", "Tue, 03 Mar 2026 08:00:00 +0000"), madeUp},
		{"no date", two, header("If-Modified-Since", "yesterday"), madeUp},
		{"tag before date", two, header("If-None-Match", `"a"`, "If-Modified-Since", tuesday), oldProof},
		{"made-up tag before date", two, header("If-None-Match", `*`, "If-Modified-Since", tuesday), madeUp},
		{"nothing known", nil, header("If-None-Match", `"c"`), unknownProof},
		{"nothing known, star", nil, header("If-None-Match", `*`), madeUp},
		{"nothing known, date", nil, header("If-Modified-Since", monday), unknownProof},
		{"nothing known, date to come", nil, header("If-Modified-Since", "Thu, 01 Jan 2099 00:00:00 GMT"), madeUp},
	}
	for _, tt := range tests {
		if got, _ := tt.feed.judge(tt.h, noon.Add(48*time.Hour)); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestVersions: which answers are of one version.
func TestVersions(t *testing.T) {
	f := seen(
		header("Etag", `"a"`, "Last-Modified", monday),
		header("Etag", `"a-gzip"`, "Last-Modified", monday, "Content-Encoding", "gzip"),
		header("Etag", `"sidecar"`, "Last-Modified", monday, "Content-Encoding", "br"), // a precompressed file
	)
	if len(f.versions) != 1 {
		t.Fatalf("%d versions, want 1: %+v", len(f.versions), f.versions)
	}
	f.learn(304, header("Etag", `"from another node"`), at(3*time.Hour))
	if f.current() != 1 || f.judgeTag("from another node") != currentProof {
		t.Error("the tag of a 304 is not the current version's")
	}
	// T09: the tag changes, the date does not.
	f.learn(200, header("Etag", `"b"`, "Last-Modified", monday), at(3*time.Hour))
	if f.current() != 2 || f.judgeTag("a") != oldProof || f.judgeTag("sidecar") != oldProof {
		t.Errorf("a new tag of the same date: version %d", f.current())
	}
	f.learn(200, header("Last-Modified", tuesday), at(3*time.Hour))
	f.learn(200, header("Last-Modified", tuesday), at(3*time.Hour))
	if f.current() != 3 {
		t.Errorf("a new date: version %d", f.current())
	}
	f.learn(200, header("Etag", `"a"`, "Last-Modified", monday), at(3*time.Hour))
	if f.current() != 1 || f.judgeTag("b") != oldProof {
		t.Error("an old version that is back is not the current one")
	}
}

// TestOlderAnswers: an answer that is older than another one changes nothing of what is current, unless the
// site itself goes back.
func TestOlderAnswers(t *testing.T) {
	a, b := header("Etag", `"a"`, "Last-Modified", monday), header("Etag", `"b"`, "Last-Modified", tuesday)
	aged := func(h http.Header, age string) http.Header {
		h = h.Clone()
		h.Set("Age", age)
		return h
	}
	f := seen(a, b) // at noon, and an hour later
	for _, c := range []struct {
		what           string
		h              http.Header
		asked          time.Duration
		shown, current uint64
	}{
		{"a copy of the older", aged(a, "5400"), 2 * time.Hour, 1, 2},
		{"one overtaken on its way", a, 59 * time.Minute, 1, 2},
		{"the newer, some time ago", aged(b, "1800"), 3 * time.Hour, 2, 2},
		{"a copy from before that", aged(a, "5400"), 3*time.Hour + time.Minute, 1, 2},
		{"the site has gone back", a, 4 * time.Hour, 1, 1},
		{"a copy from before it did", aged(b, "60"), 4*time.Hour + 30*time.Second, 2, 1},
		{"and forth", b, 5 * time.Hour, 2, 2},
		{"a copy of what nobody knows, and is older", aged(header("Etag", `"z"`), "36000"), 6 * time.Hour, 3, 2},
		{"what nobody knows, and a cache knew first", aged(header("Etag", `"c"`), "60"), 7 * time.Hour, 4, 4},
		{"a new one that took its time", header("Etag", `"e"`), 6*time.Hour + 30*time.Minute, 5, 5},
		{"one from before that, overtaken", header("Etag", `"c"`), 6*time.Hour + 45*time.Minute, 4, 5},
		{"no age", aged(header("Etag", `"d"`), "x"), 8 * time.Hour, 6, 6},
	} {
		if shown := f.learn(200, c.h, at(c.asked)); shown != c.shown || f.current() != c.current {
			t.Errorf("%s: version %d, the current one is %d; want %d and %d", c.what, shown, f.current(), c.shown, c.current)
		}
	}
	if f.judgeTag("z") != oldProof {
		t.Error("the tag of an older version is not known")
	}
}

// TestVersionsRemembered: the last eight, and no more.
func TestVersionsRemembered(t *testing.T) {
	f := new(state)
	for i := range 20 {
		f.learn(200, header("Etag", `"`+string(rune('a'+i))+`"`, "Last-Modified", at(time.Duration(i)*time.Hour).Format(http.TimeFormat)), noon)
	}
	if got := f.judgeTag("m"); got != oldProof {
		t.Errorf("the eighth last is not known")
	}
	if got := f.judgeTag("l"); got != madeUp {
		t.Errorf("the ninth last is still known")
	}
}

func FuzzTags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a", "b-gzip"`, `*`, `"`, `a,"b`, `,,"" ,W/`, `W/"a"x"b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		for n := 0; list != ""; n++ {
			raw, opaque, rest := nextTag(list)
			if len(rest) >= len(list) || len(opaque) > len(raw) {
				t.Fatalf("%q: tag %q, %q, then %q", list, raw, opaque, rest)
			}
			list = rest
		}
	})
}
