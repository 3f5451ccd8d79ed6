package feed

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// nameRoom is how long what a reader is called may be in bytes, agentRoom how much of
	// its agent is kept.
	nameRoom  = 22
	agentRoom = 48
	// gapsKept is how many times between requests the usual one is found in.
	gapsKept = 7
	// quietSpan is how long a reader has to heed what it is told until half of its
	// penalty is forgotten.
	quietSpan = 24 * time.Hour
)

// manners are how a reader of a feed behaves: what a [Conduct] tells, and what makes its whole
// fetches rarer. They take 192 bytes of a record, whatever clients send.
type manners struct {
	name      [nameRoom]byte
	agent     [agentRoom]byte
	agentSize uint8
	people    uint16 // who seem to share the key

	feed  uint64
	last  int64 // when the last request came, in Unix nanoseconds
	bytes int64

	requests, unconditional, madeUp, uncompressed, extra, cookies uint32
	early, refused, notModified                                   uint32

	gaps      [gapsKept]uint32 // in milliseconds
	gap, turn uint8            // how many, and where the next one goes

	// What it was told last: by when to come again, less the tenth that may be missing, about
	// which class, and which agent was told. due is 0 if it has been served since.
	due     int64
	whom    uint32
	told    Class
	longest bool  // whether nobody is told to wait for longer
	penalty uint8 // whole fetches are 2 to the power of this as far apart
	grown   int64 // when the penalty grew last, or half of it was forgotten
}

// arrive notes a request, before anything is decided about it.
func (m *manners) arrive(v *Visit, r *Request, rules *Rules) {
	now := r.Now.UnixNano()
	if m.requests == 0 {
		m.feed = v.feed
		if rules.Name != nil && r.Reader.Name == "" {
			rules.Name(m.name[:0], r.Reader.Key)
		}
		copy(m.name[:], r.Reader.Name)
	} else if v.grace != again && !v.paired {
		m.keepGap(time.Duration(now - m.last))
	}
	m.last, m.people = now, v.people
	m.requests++
	if v.class == Unconditional {
		m.unconditional++
	}
	if v.proof == madeUp {
		m.madeUp++
	}
	h := r.HTTP.Header
	if !compressed(h) {
		m.uncompressed++
	}
	if r.Extra {
		m.extra++
	}
	if len(h["Cookie"]) > 0 {
		m.cookies++
	}
	m.agentSize = uint8(copy(m.agent[:], agentOf(h)))
	v.slower = m.heed(v, now, rules.Escalate)
}

// agentOf is the name under which a request's client goes, empty if it tells none.
func agentOf(h http.Header) string {
	if agents := h["User-Agent"]; len(agents) > 0 {
		return agents[0]
	}
	return ""
}

// compressed reports whether a client takes a body that is compressed.
func compressed(h http.Header) bool {
	for _, accepted := range h["Accept-Encoding"] {
		for _, coding := range [...]string{"gzip", "zstd", "br"} {
			if strings.Contains(accepted, coding) {
				return true
			}
		}
	}
	return false
}

func (m *manners) keepGap(gap time.Duration) {
	m.gaps[m.turn] = uint32(min(max(gap.Milliseconds(), 0), 1<<32-1))
	m.turn = (m.turn + 1) % gapsKept
	m.gap = min(m.gap+1, gapsKept)
}

// interval is the median of the last times between requests, 0 if there are none.
func (m *manners) interval() time.Duration {
	if m.gap == 0 {
		return 0
	}
	sorted := m.gaps // a copy
	kept := sorted[:m.gap]
	slices.Sort(kept)
	return time.Duration(kept[len(kept)/2]) * time.Millisecond
}

// heed compares a request with what its reader was told last, and returns how many times as
// far apart its whole fetches are to be: 1 unless it is one that does not wait, and most
// allows more.
//
// Only what comes before the time that it was told is held against a reader, of the same
// class, from the same agent, and if it is not free. One that shares its key is never
// penalised. Who waits for the longest that anybody is told is forgiven at once: that may be
// less than its penalty wants, and waiting as one is told is to be enough.
func (m *manners) heed(v *Visit, now int64, most int) (slower int) {
	if v.agent != m.whom {
		return 1
	}
	held := m.due != 0 && v.class == m.told && v.cost > 0
	early := held && now < m.due
	if early {
		m.early++
		v.early = true
	}
	if most <= 1 || v.people > 1 {
		return 1
	}
	for m.penalty > 0 && now-m.grown >= int64(quietSpan) {
		m.penalty /= 2
		m.grown += int64(quietSpan)
	}
	switch {
	case early:
		m.grown = now
		if 1<<m.penalty < most {
			m.penalty++
		}
	case held && m.longest:
		m.penalty = 0
	}
	if v.class != Unconditional {
		return 1
	}
	return min(1<<m.penalty, most)
}

// serve notes the answer to a visit that passed.
func (m *manners) serve(v *Visit, a *Answer) {
	m.bytes += a.Bytes
	if a.Status == http.StatusNotModified {
		m.notModified++
	}
	if v.class == m.told && v.cost > 0 && a.Status < 500 {
		m.due = 0
	}
}

// Told notes what a reader was told whose visit did not pass: by status 304 that nothing is
// new, by any other to wait that long, 0 if it was not told how long. Refused is to be called
// as well.
func (b *Book) Told(v *Visit, status int, wait time.Duration, now time.Time, rules *Rules) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := &v.record.manners
	if status == http.StatusNotModified {
		m.notModified++
		return
	}
	m.refused++
	if wait <= 0 {
		return
	}
	if v.agent != m.whom {
		m.whom, m.penalty = v.agent, 0
	}
	m.told, m.due = v.class, now.Add(wait/10*9).UnixNano()
	m.longest = rules.MaxWait > 0 && wait >= rules.MaxWait
}

// Early reports whether the visit came before the time that its reader was told to wait for, by more than a
// tenth of it.
func (v *Visit) Early() bool { return v.early }

// Slower is how many times as far apart the reader's whole fetches are to be, at least 1: it
// did not wait as it was told, see [Rules].Escalate.
func (v *Visit) Slower() int { return max(v.slower, 1) }
