package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A staleMeter keeps the last good copy of each feed of a zone, and gives it to readers when the
// site fails: stale-if-error of RFC 5861, by the operator's word instead of the site's.
type staleMeter struct {
	feed  *feedMeter
	shelf *copies.Shelf
	span  time.Duration
	seen  *observe.Copies
	log   *observe.Log
}

// staleAge is how long a copy is fresh that takes the place of something else.
const staleAge = "max-age=60"

// rerecord is how often a feed without validators is recorded.
const rerecord = time.Minute

// buildStale makes what keeps the copies of a zone for feeds; nil if there is none. c has its
// defaults.
func (c *Feed) buildStale(f *feedMeter, s *Shared) (*staleMeter, error) {
	if c.Stale == 0 || f.shadow {
		return nil, nil
	}
	pool, err := s.holds.copies(f.zone, c.StaleMemory)
	if err != nil {
		return nil, err
	}
	return &staleMeter{
		feed: f, shelf: pool.shelf, span: time.Duration(c.Stale), log: s.log,
		seen: observe.NewCopies(f.zone, observe.CopyStaleError, observe.CopyStaleRefused),
	}, nil
}

// find returns the copy that a request may be given. A copy is kept for as long as the configuration
// said that was in force then, which may have been longer.
func (s *staleMeter) find(r *http.Request, now time.Time) (*copies.Copy, bool) {
	if !copies.Anonymous(r) {
		return nil, false
	}
	key, ok := copyKey(r)
	if !ok {
		return nil, false
	}
	c, ok := s.shelf.Find(key, r.Header, now)
	return &c, ok && now.Sub(c.At) < s.span
}

// stale returns what answers a reader of a feed: a copy, if it was decided so; the handlers that
// follow, and a copy if they fail; or nothing but them.
func (d *Reading) stale(next caddyhttp.Handler) caddyhttp.Handler {
	p := d.keeper()
	if p == nil {
		return next
	}
	s := p.zone.feed.stale
	if d.copy != nil {
		return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			s.send(w, r, p, d.copy, "weir; hit; detail=stale")
			s.seen.Use(r, observe.CopyStaleRefused)
			return nil
		})
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		key, ok := copyKey(r)
		if !ok || !copies.Anonymous(r) {
			return next.ServeHTTP(w, r)
		}
		return (&rescue{meter: s, part: p, request: r, key: key}).serve(w, next)
	})
}

// send answers a reader with a copy; with 304 if it shows that it has the feed as it was last known.
func (s *staleMeter) send(w http.ResponseWriter, r *http.Request, p *part, c *copies.Copy, how string) {
	now, h := Now(), w.Header()
	age := *c
	age.Header = maps.Clone(c.Header)
	delete(age.Header, "Expires")
	age.Header["Cache-Control"] = []string{staleAge}
	age.Header["Cache-Status"] = []string{how}
	if match, ok := s.feed.book.Unchanged(&p.visit); ok && feed.SameTag(match.Tag, c.Header.Get("Etag")) {
		h["Cache-Control"], h["Cache-Status"] = age.Header["Cache-Control"], age.Header["Cache-Status"]
		h.Set("Etag", match.Tag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	age.Send(w, r, now)
}

// A rescue is a request that a copy answers if the site fails, and whose answer is recorded
// otherwise.
type rescue struct {
	meter   *staleMeter
	part    *part
	request *http.Request
	key     string
	copy    *copies.Copy
}

// serve passes the request on.
func (s *rescue) serve(w http.ResponseWriter, next caddyhttp.Handler) error {
	before := maps.Clone(w.Header())
	t := &tape{witness: witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}, owner: s}
	defer func() {
		if t.recording != nil {
			t.recording.Drop() // unless it was kept
		}
	}()
	err := t.attempt(next, s.request)
	status := t.status
	if !t.begun {
		if status = statusOf(err); status >= 500 && s.failed() {
			t.held = true
		}
	}
	if !t.held {
		if t.whole(err, s.request) {
			now := Now()
			t.recording.Keep(now, now.Add(s.meter.span))
		}
		return err
	}
	h := w.Header()
	clear(h)
	maps.Copy(h, before)
	now := Now()
	s.meter.send(w, s.request, s.part, s.copy, fmt.Sprintf("weir; fwd=stale; fwd-status=%d", status))
	s.meter.seen.Use(s.request, observe.CopyStaleError)
	s.meter.log.SiteFailed(observe.Failure{Zone: s.meter.seen, Request: s.request, Status: status, Err: err, Age: s.copy.Age(now)})
	return nil
}

// statusOf is the status of an error that a handler has returned before it answered; 0 if there is
// none.
func statusOf(err error) int {
	var failed caddyhttp.HandlerError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed) && failed.StatusCode != 0:
		return failed.StatusCode
	}
	return http.StatusInternalServerError
}

// failed looks for a copy that takes the place of an error. A client that is gone needs none.
func (s *rescue) failed() (ok bool) {
	if s.request.Context().Err() != nil {
		return false
	}
	s.copy, ok = s.meter.find(s.request, Now())
	return ok
}

// begin implements tapeOwner.
func (s *rescue) begin(status int, h http.Header) (rec *copies.Recording, held bool) {
	now := Now()
	switch {
	case status >= 500:
		return nil, s.failed()
	case status == http.StatusNotModified:
		s.confirm(h)
	case isWithdrawn(status):
		s.meter.shelf.Forget(s.key, h, now)
	case status != http.StatusOK || s.request.Method != http.MethodGet || len(s.request.Header["Range"]) > 0:
	case !copies.Shared(h) || !copies.Stale(h):
		s.meter.shelf.Forget(s.key, h, now)
	case !s.known(h):
		rec, _ = s.meter.shelf.Record(s.key, s.request, status, h, now)
	}
	return rec, false
}

// isWithdrawn reports whether an answer says that what was there is not there any more, or not for
// everybody: a copy of it must not come back when the site fails.
func isWithdrawn(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusNotFound || status == http.StatusGone
}

func (*rescue) lost() {}

// confirm notes that copies still hold, by an answer of 304.
func (s *rescue) confirm(h http.Header) {
	now, tag, date := Now(), h.Get("Etag"), h.Get("Last-Modified")
	s.meter.shelf.Confirm(s.key, h, now, now.Add(s.meter.span), func(c *copies.Copy) bool {
		if tag != "" {
			return feed.SameTag(tag, c.Header.Get("Etag"))
		}
		return date != "" && date == c.Header.Get("Last-Modified")
	})
}

// known reports whether there is a copy already of the very answer that begins, and notes that it
// holds. One without validators is known for a minute.
func (s *rescue) known(h http.Header) bool {
	now, tag, date := Now(), h.Get("Etag"), h.Get("Last-Modified")
	fresh := false
	same := s.meter.shelf.Confirm(s.key, h, now, now.Add(s.meter.span), func(c *copies.Copy) bool {
		if c.Header.Get("Content-Encoding") != h.Get("Content-Encoding") ||
			c.Header.Get("Etag") != tag || c.Header.Get("Last-Modified") != date {
			return false
		}
		if tag == "" && date == "" {
			fresh = fresh || now.Sub(c.At) < rerecord
			return false
		}
		return tag != "" || h.Get("Content-Length") == fmt.Sprint(len(c.Body))
	})
	return same || fresh
}
