package config

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/copies"
	"github.com/weirhq/caddy-weir/internal/observe"
)

// A fetch is a preview that goes to the site, unless a limit refuses it, and whose answer is recorded.
type fetch struct {
	preview *Preview
	request *http.Request
	flight  *copies.Flight // that it leads; nil if nobody waits for it, or if they have been told
	until   time.Time      // when what is kept is thrown away
	enough  func()         // ends an answer whose body nobody wants; nil if somebody does
	timer   *time.Timer    // that calls it, once the answer has begun
}

// shortHold is how long the answer is held that there is nothing: it may just be on its way.
const shortHold = 10 * time.Second

// fetch has the request passed on, for all who wait for the flight.
func (p *Preview) fetch(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, pass func(next caddyhttp.Handler) error, flight *copies.Flight) error {
	f := &fetch{preview: p, request: r, flight: flight}
	p.meter.seen.Use(r, observe.CopyMiss)
	// If the handlers panic somebody else shall try; if a limit refuses, each asks for itself.
	defer f.handOver()
	err := pass(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return f.serve(w, r, next)
	}))
	f.land(false)
	return err
}

// serve passes the request on, and records the answer. What asks by HEAD is passed on as a GET, as
// RFC 9110 (section 9.3.2) lets caches do, since the program will ask for the rest next: a stream that
// has no end is given up when nobody would wait for it any more.
func (f *fetch) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	t := &tape{witness: witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}, owner: f}
	came := r.Context()
	if r.Method == http.MethodHead {
		ctx, cancel := context.WithCancel(came)
		defer cancel()
		t.mute, f.enough = ctx, cancel
		r = r.WithContext(ctx)
		r.Method = http.MethodGet
	}
	panicked := true
	defer func() {
		if f.timer != nil {
			f.timer.Stop()
		}
		switch whole := !panicked && t.whole(err, r); {
		case whole:
			kept := t.recording.Keep(Now(), f.until)
			if !kept { // there is a newer one, or somebody else records it
				_, kept = f.preview.find(r)
			}
			f.land(kept)
		case t.recording != nil:
			t.recording.Drop()
			f.handOver()
		case panicked || r.Context().Err() != nil || statusOf(err) >= 500:
			f.handOver()
		case !t.begun:
			f.leaveAlone() // an error page, or nothing at all
		default: // somebody else may have recorded it
			_, found := f.preview.find(r)
			f.land(found)
		}
		if t.muted > mostMuted || t.mute != nil && t.mute.Err() != nil && came.Err() == nil { // what there may be is our doing
			err = nil
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
				panic(cause)
			}
		}
	}()
	err = next.ServeHTTP(t, r)
	panicked = false
	return err
}

// begin implements tapeOwner.
func (f *fetch) begin(status int, h http.Header) (rec *copies.Recording, held bool) {
	m := f.preview.meter
	if f.enough != nil {
		f.timer = time.AfterFunc(m.wait, f.enough)
	}
	now := Now()
	hold := m.hold
	switch {
	case status >= 500, status == statusClientGone, f.request.Context().Err() != nil:
		f.handOver() // it says nothing of the page
		return nil, false
	case status == http.StatusNotFound || status == http.StatusGone:
		hold = min(hold, shortHold)
	case status != http.StatusOK && status != http.StatusMovedPermanently && status != http.StatusPermanentRedirect:
		f.leaveAlone()
		return nil, false
	}
	if fresh, told := copies.Fresh(h, now); told {
		hold = min(hold, fresh)
	}
	if hold <= 0 || !copies.Shared(h) {
		f.leaveAlone()
		return nil, false
	}
	f.until = now.Add(hold)
	rec, fits := m.shelf.Record(f.preview.key, f.request, status, h, now)
	if !fits {
		f.leaveAlone()
	}
	return rec, false
}

// lost implements tapeOwner.
func (f *fetch) lost() { f.leaveAlone() }

// leaveAlone says that the answer is not for others, now and for a while.
func (f *fetch) leaveAlone() {
	m, now := f.preview.meter, Now()
	m.shelf.LeaveAlone(f.preview.key, now.Add(m.hold), now)
	f.land(false)
}

// land ends the flight, if it is not over.
func (f *fetch) land(kept bool) {
	if f.flight != nil {
		f.flight.Land(kept)
		f.flight = nil
	}
}

// handOver lets another one try.
func (f *fetch) handOver() {
	if f.flight != nil {
		f.flight.HandOver()
		f.flight = nil
	}
}
