package feed

import "time"

// A Match is the version that a reader has, as an answer of 304 names it. Both fields may be
// empty.
type Match struct{ Tag, Date string }

// Unchanged returns what to say to a conditional request whose client shows that it has the
// current version; ok is false for any other.
func (b *Book) Unchanged(v *Visit) (m Match, ok bool) {
	if v.class != Conditional || v.proof != currentProof {
		return m, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.feeds.get(v.feed)
	if f.current() != v.version {
		return m, false
	}
	m = f.versions[0].match()
	if v.tag != "" {
		m.Tag = v.tag // the one of several that the client has
	}
	return m, true
}

// Received returns what to say to a client that received the current version to its end, if
// this reader did, nobody shares its key, and it is sure to be one version.
func (b *Book) Received(v *Visit) (m Match, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.feeds.get(v.feed)
	if v.other || f.empty() || v.record.complete != f.current() || v.people > 1 || f.versions[0].vague {
		return m, false
	}
	return f.versions[0].match(), true
}

func (v *version) match() Match { return Match{Tag: v.tags[0].raw, Date: v.date} }

// Notify reports whether a refused reader is to be told why in its feed, and notes that it
// was: after so many refusals without an answer, and once a day. kind is the media type of
// the feed.
func (b *Book) Notify(v *Visit, after int, now time.Time) (kind string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := v.record
	if v.head || v.other || c.refusals < after || !c.told.IsZero() && now.Sub(c.told) < 24*time.Hour {
		return "", false
	}
	c.told = now
	if f := b.feeds.get(v.feed); f != nil {
		kind = f.kind
	}
	return kind, true
}
