package copies

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Recording is a copy in the making. One request at a time records what stands under a key, and
// what all recordings hold counts among the bytes of their shelf. Its methods belong to one
// goroutine.
type Recording struct {
	shelf *Shelf
	key   string
	began time.Time
	copy  Copy
	taken int64 // of the shelf's bytes
	want  int64 // how long the body is; -1 if that was not told
	lost  bool  // whether it is too long to be kept
	over  bool
}

// Record begins to record the answer to a request, of which the header is known. fits is false if it
// is too long to be kept; rec is nil then, if somebody else records the same, and if there is a newer copy.
func (s *Shelf) Record(key string, r *http.Request, status int, h http.Header, now time.Time) (rec *Recording, fits bool) {
	rec = &Recording{shelf: s, key: key, began: now, want: -1}
	rec.copy = Copy{
		Status: status, Header: lasting(h), At: now, aged: aged(h),
		coding: h.Get("Content-Encoding"),
	}
	rec.copy.modified, _ = http.ParseTime(h.Get("Last-Modified"))
	if says(h["Vary"], "Accept") {
		rec.copy.byAccept, rec.copy.accept = true, strings.Join(r.Header["Accept"], ",")
	}
	if told := h["Content-Length"]; len(told) > 0 {
		n, err := strconv.ParseInt(told[0], 10, 64)
		if err != nil || n < 0 {
			return nil, false
		}
		rec.want = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.look(key, now); e != nil && e.recording != nil && now.Sub(e.recording.began) < slow {
		return nil, true
	}
	if s.outdated(key, &rec.copy, now) {
		return nil, true
	}
	if !rec.take(rec.copy.size() + max(rec.want, 0)) {
		return nil, false
	}
	e := s.look(key, now) // what made room may have been this
	if e == nil {
		e = s.add(key)
	}
	e.recording = rec
	if rec.want > 0 {
		rec.copy.Body = make([]byte, 0, rec.want)
	}
	return rec, true
}

// take takes so many bytes more of the shelf. The lock is held.
func (rec *Recording) take(n int64) bool {
	s := rec.shelf
	if rec.taken+n > s.most/largest || s.taken+n > s.most {
		return false
	}
	rec.taken += n
	s.taken += n
	s.trim()
	return true
}

// Write takes in what is sent of the body. It never fails.
func (rec *Recording) Write(data []byte) (int, error) {
	if rec.lost || rec.over {
		return len(data), nil
	}
	if room := cap(rec.copy.Body) - len(rec.copy.Body); len(data) > room {
		grown := max(2*cap(rec.copy.Body), len(rec.copy.Body)+len(data), 4<<10)
		rec.shelf.mu.Lock()
		// What is copied exists twice for a moment only.
		ok := rec.take(int64(grown - cap(rec.copy.Body)))
		rec.shelf.mu.Unlock()
		if !ok {
			rec.lost, rec.copy.Body = true, nil
			return len(data), nil
		}
		rec.copy.Body = append(make([]byte, 0, grown), rec.copy.Body...)
	}
	rec.copy.Body = append(rec.copy.Body, data...)
	return len(data), nil
}

// Lost reports whether the body is too long to be kept.
func (rec *Recording) Lost() bool { return rec.lost }

// Whole reports whether the body is as long as the header said.
func (rec *Recording) Whole() bool {
	return !rec.lost && (rec.want < 0 || rec.want == int64(len(rec.copy.Body)))
}

// Keep puts the copy on the shelf, if the recording is whole and the shelf has no newer one, and reports
// whether it did.
func (rec *Recording) Keep(now, until time.Time) bool {
	s := rec.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := rec.current(); !rec.finish() || !current || !rec.Whole() {
		return false
	}
	c := rec.copy
	c.Until = until
	if s.outdated(rec.key, &c, now) {
		return false
	}
	if spare := cap(c.Body) - len(c.Body); spare > len(c.Body)/8 {
		c.Body = append([]byte(nil), c.Body...)
	}
	s.put(rec.key, &c)
	return true
}

// Drop ends a recording of which nothing is kept. After Keep it does nothing.
func (rec *Recording) Drop() {
	rec.shelf.mu.Lock()
	defer rec.shelf.mu.Unlock()
	rec.finish()
}

// finish gives back what the recording took. The lock is held.
func (rec *Recording) finish() bool {
	if rec.over {
		return false
	}
	rec.over = true
	rec.shelf.taken -= rec.taken
	if at := rec.shelf.entries[rec.key]; at != nil && rec.current() {
		at.Value.(*entry).recording = nil
	}
	return true
}

// current reports whether nobody has begun to record the same since. The lock is held.
func (rec *Recording) current() bool {
	at := rec.shelf.entries[rec.key]
	return at == nil || at.Value.(*entry).recording == rec
}

// slow is after what time a recording keeps nobody from another one of the same: it is no faster than
// its client, who may take in nothing at all.
const slow = 5 * time.Second
