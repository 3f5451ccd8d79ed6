package feed

import (
	"net/http"
	"time"
)

// How long and how often things are let pass that are no abuse.
const (
	// graceSpan is for how long a new reader is one that subscribes, and graceFulls how
	// many whole feeds that takes: readers look at the address, then add the feed, then
	// fetch it.
	graceSpan  = 10 * time.Second
	graceFulls = 3
	// sameSpan is for how long an equal request is the same one again, and sameMost how
	// often: some readers send theirs three or four times at once.
	sameSpan = 2 * time.Second
	sameMost = 3
	// headSpan is how long after a HEAD a GET belongs to it.
	headSpan = 10 * time.Second
	// refetchSpan is how often a reader that sends validators may leave them out: some do
	// so every twelve hours, others every eight days. A tenth may be missing.
	refetchSpan = 12 * time.Hour * 9 / 10
	// devices is how many readers with the same key are believed to have an old version, each of
	// which gets the new one: people have two or three at home, mostly with the same reader.
	devices = 3
	// newsSpan is how often a new version is free in the long run, as often as a polite reader asks, and
	// newsBurst how many are at once. There are sites that give each answer a validator of its own, to
	// which nothing is ever old.
	newsSpan  = time.Hour * 9 / 10
	newsBurst = 8
	// mostPieces is how many parts of a version a reader may have besides what is free: it may break
	// off, but whoever asks for all bytes by Range, or leaves before the last, is not to have it for
	// nothing for ever.
	mostPieces = 3
)

// A record is what is known of one reader of one feed.
type record struct {
	first, head, same, refetch time.Time // when; zero for never
	served                     time.Time // the last answer of 200 or 304
	told                       time.Time // the last notice
	hash                       uint64    // of the request at same
	sames                      uint8     // how often it came again
	graces                     uint8
	headCost                   int64
	headClass                  Class

	granted  uint64    // the version of which whole feeds were given for nothing, or paid
	grants   uint16    // how many
	newsDue  time.Time // when a new version is free if each has its time, see isNews
	pieces   uint8     // how many parts of it were sent that did not count
	complete uint64    // the version that was last received to its end
	proper   bool      // whether it sent an honest validator since it last sent none
	blunt    bool      // whether its validators spare nothing: the answer was whole all the same
	refusals int       // since the last answer

	manners manners
}

// A grace is why a request costs nothing.
type grace uint8

const (
	noGrace grace = iota
	again         // the same request within a moment
	joining       // a new reader
	news          // a version that it has not yet
	refetching
	announced
)

// excuse says why a request may cost nothing, and notes that it was used.
func (c *record) excuse(v *Visit, r *Request, rules *Rules, f *state) grace {
	if v.other {
		return noGrace
	}
	// Who was refused last pays for each: what comes while that is decided anew would pass.
	if v.hash == c.hash && c.refusals == 0 && r.Now.Sub(c.same) < sameSpan && c.sames < sameMost {
		c.sames++
		return again
	}
	c.hash, c.same, c.sames = v.hash, r.Now, 0
	switch {
	case v.head:
		return noGrace
	case v.class == Unconditional && c.graces < graceFulls && r.Now.Sub(c.first) < graceSpan:
		c.graces++
		return joining
	case (v.class == Unconditional || v.proof == oldProof) && c.grant(v, r.Now):
		return news
	case v.class == Conditional:
		return noGrace
	case v.version != 0 && rules.Announce > 0 && r.Now.Sub(f.versions[0].since) < rules.Announce:
		return announced
	case v.proof == noProof && c.proper && r.Now.Sub(c.refetch) >= refetchSpan:
		v.before, c.refetch = c.refetch, r.Now
		return refetching
	}
	return noGrace
}

// wholes is how many whole feeds of a version are free to requests like this one. Who shows an old
// version may be another device; one that keeps it for ever soon is not.
func (v *Visit) wholes() uint16 {
	if v.proof == oldProof {
		return max(v.people, devices)
	}
	return v.people
}

// grant takes one of the whole feeds of a version that are free, if there is one left.
func (c *record) grant(v *Visit, now time.Time) bool {
	switch {
	case v.version == 0:
		return false
	case c.granted != v.version:
		if !c.isNews(now) {
			return false
		}
		v.before = c.newsDue
		c.found(v, now)
		c.granted, c.grants, c.pieces = v.version, 1, 0
		return true
	case c.grants < v.wholes():
		v.before = c.newsDue
		c.grants++
		return true
	}
	return false
}

// isNews reports whether a new version is free: GCRA, by the theoretical arrival time that found
// moves on.
func (c *record) isNews(now time.Time) bool {
	return c.newsDue.Sub(now) <= newsSpan*(newsBurst-1)
}

// found notes that a new version is free. Several readers with one key have as many.
func (c *record) found(v *Visit, now time.Time) {
	if c.newsDue.Before(now) {
		c.newsDue = now
	}
	c.newsDue = c.newsDue.Add(newsSpan / time.Duration(v.wholes()))
}

// has reports whether the reader has had its whole feeds of a version.
func (c *record) has(version uint64, people uint16) bool {
	return version != 0 && c.granted == version && c.grants >= people
}

// broken gives back what an answer used up that was not the whole feed, or none.
func (c *record) broken(v *Visit, a *Answer) {
	if a.Bytes > 0 && (a.Status == http.StatusOK || a.Status == http.StatusPartialContent) {
		if c.pieces == mostPieces {
			return
		}
		c.pieces++
		v.before = c.newsDue // it was free all the same
	}
	c.giveBack(v)
}

// giveBack undoes what an excuse noted.
func (c *record) giveBack(v *Visit) {
	switch v.grace {
	case again: // unless another request has come since, which counts anew
		if c.hash == v.hash && c.sames > 0 {
			c.sames--
		}
	case joining:
		if c.graces > 0 {
			c.graces--
		}
	case news:
		if c.granted == v.version && c.grants > 0 {
			if c.grants--; c.grants == 0 {
				c.newsDue = v.before
			}
		}
	case refetching:
		c.refetch = v.before
	}
}
