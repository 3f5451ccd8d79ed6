package feed

import (
	"net/http"
	"strings"
	"time"
)

// An Answer is what became of a visit that passed.
type Answer struct {
	// Feed is the feed's name, as it stood in the request.
	Feed   string
	Status int
	// Bytes of the body that were written, and whether that was all of it.
	Bytes    int64
	Complete bool
	// Header of the answer.
	Header http.Header
	// Head is the beginning of the body of a status 200, as it was sent; nil if it was not
	// looked at.
	Head []byte
	Now  time.Time
}

// Served learns from the answer to a visit that passed, and returns what the visit costs now
// that this is known, which is at most its cost unless the rules charge by bytes. Which part
// of a budget each answer is worth:
//
//   - a conditional request is one poll, whatever it finds
//   - 5xx costs nothing
//   - 304 and HEAD cost a twentieth of a whole feed
//   - a part, by Range or since the client left, costs as much of it as was sent
//   - all else costs as much as a whole feed
func (b *Book) Served(v *Visit, a *Answer, rules *Rules) (price int64) {
	hints, looked := a.hints()
	b.mu.Lock()
	defer b.mu.Unlock()
	v.record.manners.serve(v, a)
	f, found := b.feeds.get(v.feed), false
	if whole := a.Status == http.StatusOK && !v.other; whole || a.Status == http.StatusNotModified {
		if f == nil {
			f = &state{name: strings.Clone(a.Feed)} // which may be part of a reader's key
			b.feeds.put(v.feed, f)
		}
		before := f.current()
		shown := f.learn(a.Status, a.Header, v.at)
		if whole && shown == f.current() {
			f.kind = a.Header.Get("Content-Type")
			if looked {
				f.hints, f.hinted, f.readAt = hints, shown, a.Now
			}
			if found = v.found(a, shown); found {
				v.record.found(v, a.Now)
			}
		}
		v.record.note(v, a, before, shown)
		if whole && !v.head && a.Complete {
			f.measure(a.Bytes)
		}
	} else if v.grace != again {
		v.record.broken(v, a)
	}
	if found {
		return 0
	}
	return v.price(a, f, rules)
}

// found reports whether the visit was the first to find a version, the current one now, that its reader did
// not have: had anybody known of it before, it would have been free.
func (v *Visit) found(a *Answer, now uint64) bool {
	return v.class == Unconditional && !v.head && a.Status == http.StatusOK && a.Complete &&
		now != v.version && now != v.record.granted && v.record.isNews(a.Now)
}

// note keeps what a reader was given. before is the version that was the current one until now, shown the
// one of the answer.
func (c *record) note(v *Visit, a *Answer, before, shown uint64) {
	c.served, c.refusals = a.Now, 0
	if v.proof.honest() {
		c.proper = true
	}
	switch {
	case a.Status == http.StatusNotModified:
		c.blunt = false
		if v.grace == news && v.proof.honest() {
			c.giveBack(v) // who made it up would have it back for ever
		}
		return
	case v.head:
		return
	case !a.Complete:
		if v.grace == news {
			c.broken(v, a)
		}
		return
	}
	if v.proof == noProof || v.proof == madeUp {
		c.proper = false
	}
	if v.proof == currentProof && shown == before {
		c.blunt = true
	}
	c.complete = shown
	switch {
	case v.grace == news && c.granted == shown:
	case c.granted != shown:
		c.granted, c.grants, c.pieces = shown, 1, 0
	case c.grants < manyGrants:
		c.grants++
	}
}

// manyGrants is more than anybody has for nothing.
const manyGrants = 1 << 15

// price is what the visit costs.
func (v *Visit) price(a *Answer, f *state, rules *Rules) int64 {
	switch {
	case v.cost == 0 || a.Status == 0:
		return v.cost
	case a.Status >= 500:
		return 0
	case v.class == Conditional || v.head:
		return v.cost
	}
	paid := v.fullCost() - v.cost // by the HEAD before it
	return max(v.worth(a, f, rules)-paid, 0)
}

// fullCost is what the visit would cost alone.
func (v *Visit) fullCost() int64 {
	if v.head && v.class == Unconditional {
		return Slight
	}
	return Full
}

// worth is what an answer to an unconditional request is worth.
func (v *Visit) worth(a *Answer, f *state, rules *Rules) int64 {
	switch a.Status {
	case http.StatusNotModified:
		return Slight
	case http.StatusOK:
		if a.Complete && !rules.Bytes {
			return Full
		}
	case http.StatusPartialContent:
	default:
		return Full
	}
	usual := f.usual()
	if usual == 0 {
		return Full
	}
	worth := max((a.Bytes*Full+usual-1)/usual, Slight)
	if !rules.Bytes {
		worth = min(worth, Full)
	}
	return min(worth, mostWorth)
}

// mostWorth bounds what a single answer may cost: ten whole feeds.
const mostWorth = 10 * Full
