package feed

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	// remembered is how many versions of a feed are known by their validators.
	remembered = 8
	// tagsEach is how many tags a version may have: one for each way it is encoded.
	tagsEach = 4
	// sizesKept is how many sizes of whole feeds the usual one is found in.
	sizesKept = 9
)

// A version of a feed is known by its validators.
type version struct {
	number   uint64 // in order of appearance, from 1
	tags     [tagsEach]tag
	modified time.Time // zero if no answer told
	date     string    // the same as the answer wrote it
	since    time.Time // when it was first seen
	vague    bool      // whether it may be two: nothing but another coding, or a 304, joined their tags
}

// A tag is how one coding of a version is known.
type tag struct {
	opaque string // without quotes and marks; empty for none
	raw    string // as the answer wrote it
	coding string // "?" if that was not told
}

// unknownCoding is that of a tag which a 304 named.
const unknownCoding = "?"

func (v *version) has(opaque string) bool {
	for i := range v.tags {
		if v.tags[i].opaque == opaque && opaque != "" {
			return true
		}
	}
	return false
}

// join makes a tag one more of the version's, and reports whether it could be: a version has
// one tag for each coding.
func (v *version) join(t tag) bool {
	for i := range v.tags {
		switch old := &v.tags[i]; {
		case old.opaque == "":
			*old = t
			return true
		case old.coding == t.coding && t.coding != unknownCoding:
			return false
		}
	}
	return false
}

// A state is what is known of one feed. A nil state knows nothing.
type state struct {
	name     string
	versions []version // the current one first
	last     uint64    // the highest number
	born     time.Time // when the newest answer that showed the current version was made, at the earliest
	bare     bool      // whether answers have no validators
	sizes    []int64   // of whole feeds, the last ones
	turn     int       // where in sizes the next one goes
	hints    Hints
	hinted   uint64    // the version that the hints were read of
	readAt   time.Time // when
	kind     string    // media type of the answers
}

// empty reports whether no version is known.
func (f *state) empty() bool { return f == nil || len(f.versions) == 0 }

// current is the number of the current version, 0 if none is known.
func (f *state) current() uint64 {
	if f.empty() {
		return 0
	}
	return f.versions[0].number
}

// learn finds the version that an answer of status 200 or 304 shows, and makes it the current one unless
// the answer is older than one that showed another. It returns the version's number, 0 for none. asked is
// when the site was: an answer is as old as that and its Age (RFC 9111, section 5.1) say, be it one of our
// copies, of a cache that lags behind, or one that was overtaken on its way.
func (f *state) learn(status int, h http.Header, asked time.Time) (shown uint64) {
	opaque, tagged := opaqueOf(h.Get("Etag"))
	modified, date := dateOf(h)
	if !tagged && date == "" {
		f.bare = f.bare || status == http.StatusOK && f.empty()
		return f.current()
	}
	f.bare = false
	age := ageOf(h)
	born := asked.Add(-age)
	t := tag{opaque: opaque, raw: h.Get("Etag"), coding: h.Get("Content-Encoding")}
	if status == http.StatusNotModified {
		t.coding = unknownCoding
	}
	for i := range f.versions {
		if f.versions[i].shown(t, modified) {
			shown = f.versions[i].number
			if i == 0 || !born.Before(f.born) {
				f.makeCurrent(i)
				f.confirm(born)
			}
			return shown
		}
	}
	if !f.empty() && f.versions[0].kin(status, modified) && t.opaque != "" && f.versions[0].join(t) {
		f.versions[0].vague = f.versions[0].vague || modified.IsZero()
		f.confirm(born)
		return f.current()
	}
	f.last++
	v := version{number: f.last, modified: modified, date: date, since: asked}
	if tagged {
		v.tags[0] = t
	}
	place := 0
	if age > 0 && !f.empty() && born.Before(f.born) {
		place = 1 // the site has shown the current one since
	}
	if len(f.versions) == remembered {
		f.versions = f.versions[:remembered-1]
	}
	f.versions = slices.Insert(f.versions, place, v)
	if place == 0 {
		f.confirm(born)
	}
	return v.number
}

// confirm notes that an answer which was made then shows the current version.
func (f *state) confirm(born time.Time) {
	if f.born.Before(born) {
		f.born = born
	}
}

// ageOf is how long an answer has been under way through caches.
func ageOf(h http.Header) time.Duration {
	told := h["Age"]
	if len(told) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(told[0], 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// dateOf reads when an answer was last modified, and how it says so; zero if it does not.
func dateOf(h http.Header) (modified time.Time, date string) {
	if date = h.Get("Last-Modified"); date == "" {
		return time.Time{}, ""
	}
	modified, err := http.ParseTime(date)
	if err != nil {
		return time.Time{}, ""
	}
	return modified, date
}

// shown reports whether an answer with these validators is of this version. The tag decides,
// unless the dates contradict.
func (v *version) shown(t tag, modified time.Time) bool {
	if !v.modified.IsZero() && !modified.IsZero() && !v.modified.Equal(modified) {
		return false
	}
	if t.opaque == "" {
		return !modified.IsZero() && v.modified.Equal(modified)
	}
	return v.has(t.opaque)
}

// kin reports whether an answer of that date, with a tag that is new, may be the same version
// in another coding. A 304 tells no date: its tag is the current one, and the body was not
// looked at.
func (v *version) kin(status int, modified time.Time) bool {
	return status == http.StatusNotModified && modified.IsZero() || v.modified.Equal(modified)
}

// makeCurrent puts a known version first.
func (f *state) makeCurrent(i int) {
	if i > 0 {
		v := f.versions[i]
		copy(f.versions[1:i+1], f.versions[:i])
		f.versions[0] = v
	}
}

// measure notes the size of a whole feed.
func (f *state) measure(n int64) {
	if len(f.sizes) < sizesKept {
		f.sizes = append(f.sizes, n)
		return
	}
	f.sizes[f.turn] = n
	f.turn = (f.turn + 1) % sizesKept
}

// usual is the median size of whole feeds, 0 if none was seen.
func (f *state) usual() int64 {
	if f == nil || len(f.sizes) == 0 {
		return 0
	}
	var room [sizesKept]int64
	sorted := append(room[:0], f.sizes...)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
