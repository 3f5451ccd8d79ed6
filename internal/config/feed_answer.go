package config

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/limiter"
)

// A feedWriter sees the answer to a reader of a feed go by. It says how long the answer is
// fresh, unless the site does, and keeps the beginning of a version that is new.
type feedWriter struct {
	witness

	feed    *feedMeter
	visit   *feed.Visit
	looking bool
	head    []byte
	value   [1]string // of Cache-Control
}

// reader returns the first part whose zone is one of feeds; nil if there is none.
func (d *Reading) reader() *part {
	for i := range d.parts {
		if p := &d.parts[i]; p.entered {
			return p
		}
	}
	return nil
}

func newFeedWriter(w http.ResponseWriter, p *part) *feedWriter {
	return &feedWriter{
		witness: witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}},
		feed:    p.zone.feed, visit: &p.visit,
	}
}

// open is called before the answer begins.
func (w *feedWriter) open(status int) {
	if w.status != 0 || w.feed.shadow {
		return
	}
	if status != http.StatusOK && status != http.StatusNotModified {
		return
	}
	h := w.Header()
	if status == http.StatusOK && !w.feed.rules.Deaf {
		w.looking = w.feed.book.Wants(w.visit, h, Now())
	}
	if len(h["Cache-Control"]) > 0 || len(h["Expires"]) > 0 {
		return
	}
	if w.value[0] = w.feed.cacheControl(w.feed.book.MaxAge(w.visit, &w.feed.rules)); w.value[0] != "" {
		h["Cache-Control"] = w.value[:]
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *feedWriter) WriteHeader(status int) {
	if status >= 200 {
		w.open(status)
	}
	w.witness.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *feedWriter) Write(data []byte) (int, error) {
	w.open(http.StatusOK)
	if w.looking {
		w.keep(data)
	}
	return w.witness.Write(data)
}

// keep keeps what is still wanted of a body.
func (w *feedWriter) keep(data []byte) {
	room := feed.HeadSize - len(w.head)
	w.head = append(w.head, data[:min(room, len(data))]...)
	w.looking = len(w.head) < feed.HeadSize
}

// ReadFrom implements [io.ReaderFrom]. What is looked at is copied, the rest is not.
func (w *feedWriter) ReadFrom(from io.Reader) (n int64, err error) {
	w.open(http.StatusOK)
	if w.looking {
		n, err = io.CopyN(struct{ io.Writer }{w}, from, int64(feed.HeadSize-len(w.head)))
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
	}
	rest, err := w.witness.ReadFrom(from)
	return n + rest, err
}

// Flush implements [http.Flusher].
func (w *feedWriter) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] looks for.
func (w *feedWriter) FlushError() error {
	w.open(http.StatusOK)
	return w.witness.FlushError()
}

// served tells the part's book what became of its request, and settles the price. w, which
// may be nil, saw the answer; whole is set if the handlers ended it as they wanted.
func (f *feedMeter) served(m *Meter, d *Reading, p *part, r *http.Request, seen *Response, w *feedWriter, whole bool) {
	a := feed.Answer{Feed: p.feedName(), Status: seen.Status, Bytes: seen.Bytes, Header: seen.Header, Now: Now()}
	a.Complete = whole && seen.Status == http.StatusOK && r.Context().Err() == nil && isAll(seen)
	if w != nil && w.visit == &p.visit {
		a.Head = w.head
	}
	price := f.book.Served(&p.visit, &a, &f.rules)
	p.entered = false
	if !d.counted {
		return
	}
	ask, result := &d.asks[p.from], &d.Results[p.from]
	if ask.Cost > 0 && p.zone.prices != nil {
		price = p.zone.prices.of(seen, ask.Cost)
	}
	if price != ask.Cost && result.Allowed {
		m.settlers.of(result.Origin).add(limiter.Change{Limit: ask.Limit, Key: ask.Key, Delta: price - ask.Cost, Spent: result.Now})
	}
}

// isAll reports whether an answer is as long as it said.
func isAll(seen *Response) bool {
	said := seen.Header["Content-Length"]
	if len(said) == 0 {
		return true
	}
	n, err := strconv.ParseInt(said[0], 10, 64)
	return err == nil && n == seen.Bytes
}

// Content is an answer of our own in place of a refusal.
type Content struct {
	// Status of the answer.
	Status int
	// Tag, Modified, CacheControl and Type are the fields ETag, Last-Modified, Cache-Control
	// and Content-Type. Empty ones are left out.
	Tag, Modified, CacheControl, Type string
	Body                              []byte
}

// shortestStay is how long a 304 of ours is fresh if nothing else is known.
const shortestStay = time.Hour

// Instead returns what a reader of a feed gets instead of the refusal; nil if it is refused.
func (m *Meter) Instead(d *Reading, r *http.Request) *Content {
	if d.blamed < 0 {
		return nil
	}
	p := &d.parts[d.blamed]
	if !p.entered || d.Blamed != p.from || p.fate != asked {
		return nil
	}
	f := p.zone.feed
	if !f.conf.Strict {
		if match, ok := f.book.Unchanged(&p.visit); ok {
			return f.unchanged(p, match, d.Wait)
		}
	}
	switch f.conf.Over {
	case overNotModified, overAnnounce:
		if match, ok := f.book.Received(&p.visit); ok {
			return f.unchanged(p, match, d.Wait)
		}
	case overExplain:
		now := Now()
		if kind, ok := f.book.Notify(&p.visit, f.conf.ExplainAfter, now); ok {
			n := feed.Notice{Kind: kind, URL: address(r), Wait: d.Wait, Now: now}
			body, kind := n.Write()
			return &Content{Status: http.StatusOK, CacheControl: "no-store", Type: kind, Body: body}
		}
	}
	return nil
}

// unchanged tells a client that it has the current version, and when to ask again.
func (f *feedMeter) unchanged(p *part, match feed.Match, wait time.Duration) *Content {
	age := f.book.MaxAge(&p.visit, &f.rules)
	if age == 0 {
		age = min(wait, shortestStay)
	}
	return &Content{
		Status: http.StatusNotModified, Tag: match.Tag, Modified: match.Date,
		CacheControl: f.cacheControl(age + time.Second - 1),
	}
}

// address is the URL of the request.
func address(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath()
}

// Answered does what is to be done about a request that got [Meter.Instead] instead of a
// refusal. It takes the reading back.
func (m *Meter) Answered(d *Reading, r *http.Request, status int) {
	d.leave(status, 0)
	for i := range d.parts {
		p := &d.parts[i]
		if ban := p.bans(); ban != nil && p.fate == asked {
			ban.turnedAway(p.key, r, status, false)
		}
	}
	m.Free(d)
}
