package feed

import (
	"net/http"
	"strings"
	"time"
)

// A proof is what a request's validators show of what its client has.
type proof uint8

const (
	noProof      proof = iota // there is none
	madeUp                    // it was never ours, or is none at all
	unknownProof              // it is well-formed, and nothing is known of the feed yet
	oldProof                  // of an earlier version
	currentProof              // of the current version
)

// honest reports whether the client was once given what it shows.
func (p proof) honest() bool { return p >= unknownProof }

// judge says what a request's validators prove, and which one does: an entity tag as it
// stands in the request, empty if it was the date. If-None-Match goes before
// If-Modified-Since (RFC 9110, section 13.2.2).
func (f *state) judge(h http.Header, now time.Time) (p proof, tag string) {
	if values := h["If-None-Match"]; len(values) > 0 {
		return f.judgeTags(values)
	}
	values := h["If-Modified-Since"]
	if len(values) == 0 {
		return noProof, ""
	}
	return f.judgeDate(values[0], now), ""
}

// judgeTags finds the best that any tag of the lists proves.
func (f *state) judgeTags(values []string) (best proof, tag string) {
	best = madeUp
	for _, rest := range values {
		for rest != "" {
			var raw, opaque string
			if raw, opaque, rest = nextTag(rest); raw == "" {
				continue
			}
			if p := f.judgeTag(opaque); p > best {
				best, tag = p, raw
			}
		}
	}
	return best, tag
}

func (f *state) judgeTag(opaque string) proof {
	if f.empty() {
		return unknownProof
	}
	for i := range f.versions {
		if f.versions[i].has(opaque) {
			return oldOrCurrent(i)
		}
	}
	return madeUp
}

func (f *state) judgeDate(text string, now time.Time) proof {
	if !f.empty() {
		for i := range f.versions {
			if v := &f.versions[i]; v.date != "" && v.date == text {
				return oldOrCurrent(i)
			}
		}
	}
	date, err := http.ParseTime(text)
	switch {
	case err != nil || date.After(now.Add(time.Minute)):
		return madeUp // a date to come would be answered with 304 for ever
	case f.empty():
		return unknownProof
	}
	for i := range f.versions {
		if v := &f.versions[i]; !v.modified.IsZero() && v.modified.Equal(date) {
			return oldOrCurrent(i)
		}
	}
	return madeUp
}

func oldOrCurrent(index int) proof {
	if index == 0 {
		return currentProof
	}
	return oldProof
}

// nextTag cuts the first entity tag off a list of them: as it stands, and as it counts. What
// is none, such as a star or a text without quotes, is cut off as well, and raw is empty.
func nextTag(list string) (raw, opaque, rest string) {
	list = strings.TrimLeft(list, " \t,")
	body := strings.TrimPrefix(list, "W/")
	if !strings.HasPrefix(body, `"`) {
		_, rest, _ = strings.Cut(list, ",")
		return "", "", rest
	}
	end := strings.IndexByte(body[1:], '"')
	if end < 0 {
		return "", "", ""
	}
	n := len(list) - len(body) + end + 2
	return list[:n], bare(body[1 : end+1]), list[n:]
}

// opaqueOf returns how an ETag of an answer counts; ok is false if it is none.
func opaqueOf(field string) (opaque string, ok bool) {
	raw, opaque, _ := nextTag(field)
	return opaque, raw != ""
}

// bare takes the mark of a content coding off a tag: encoders add one to the tag of what they
// encode, and a 304 may name either.
func bare(opaque string) string {
	for _, mark := range [...]string{"-gzip", "-zstd", "-br"} {
		if s, found := strings.CutSuffix(opaque, mark); found {
			return s
		}
	}
	return opaque
}

// SameTag reports whether two entity tags are those of one version: without W/ and what encoders
// append.
func SameTag(a, b string) bool {
	first, ok := opaqueOf(a)
	second, found := opaqueOf(b)
	return ok && found && first == second
}
