package respond

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Tarpit refuses requests slowly, to cost clients time who would otherwise come back at
// once. It holds only so many at a time, each only for so long, and lets go of all when
// it is ended, so that it can exhaust nothing of the server's. It is safe for concurrent
// use.
type Tarpit struct {
	most  int64
	each  time.Duration
	held  atomic.Int64
	ended chan struct{}
	end   func()
}

// NewTarpit returns a tarpit that holds at most so many requests at once, each for that
// long.
func NewTarpit(most int, each time.Duration) *Tarpit {
	t := &Tarpit{most: int64(most), each: each, ended: make(chan struct{})}
	t.end = sync.OnceFunc(func() { close(t.ended) })
	return t
}

// End lets all requests go that are held, with the rest of their answers at once, and takes
// no more. It may be called more than once.
func (t *Tarpit) End() { t.end() }

// Enter takes a place for a request, and reports whether there was one. The place is given
// back by Refuse.
func (t *Tarpit) Enter() bool {
	select {
	case <-t.ended:
		return false
	default:
	}
	if t.held.Add(1) > t.most {
		t.held.Add(-1)
		return false
	}
	return true
}

// Refuse answers a request for which Enter took a place as the function [Refuse] does, but
// piece by piece, and returns when the answer is complete, the client is gone or the
// tarpit has ended. The site's error routes are not asked. What has no body in the answer, such
// as HEAD, gets its head at the end.
//
// In HTTP/2 and 3 only the request's stream is held up, and its body thrown away, so
// that the other streams of the connection have the window to themselves. In HTTP/1 the
// connection is closed afterwards: what the client still sends is not waited for.
func (t *Tarpit) Refuse(w http.ResponseWriter, r *http.Request, f *Refusal) {
	defer t.held.Add(-1)
	rc := http.NewResponseController(w)
	// A client that does not read must not hold on to its place. Writers that know no deadline
	// are those of tests.
	_ = rc.SetWriteDeadline(time.Now().Add(t.each + pace))
	leaveBody(w, r)
	defer endBody(w, r)
	dropBody(rc, r)

	h := w.Header()
	if r.ProtoMajor < 2 {
		h["Connection"] = []string{"close"}
	}
	after := f.begin(h)
	message := f.message(r)
	if kind := grpcKind(r); kind != "" {
		if t.wait(r) {
			refuseGRPC(w, kind, f, message, after)
		}
		return
	}
	body, kind := f.body(r, message, after, nil)
	describeAll(h, kind, len(body))
	if r.Method == http.MethodHead {
		if t.wait(r) {
			w.WriteHeader(f.Status)
		}
		return
	}
	w.WriteHeader(f.Status)
	t.drip(w, rc, r, body)
}

// pace is the time between two pieces of an answer.
const pace = time.Second

// wait returns when the time of a request is over. It reports whether the client is still
// there.
func (t *Tarpit) wait(r *http.Request) bool {
	timer := time.NewTimer(t.each)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ended:
	case <-r.Context().Done():
		return false
	}
	return true
}

// drip writes the body in pieces over the time of a request.
func (t *Tarpit) drip(w io.Writer, rc *http.ResponseController, r *http.Request, body []byte) {
	pieces := max(1, int(t.each/pace))
	tick := time.NewTicker(t.each / time.Duration(pieces))
	defer tick.Stop()
	sent := 0
	for i := 0; ; {
		if flush(rc) != nil || i == pieces {
			return // complete, or the client is gone
		}
		select {
		case <-tick.C:
			i++
		case <-t.ended:
			i = pieces
		case <-r.Context().Done():
			return
		}
		next := len(body) * i / pieces
		if _, err := w.Write(body[sent:next]); err != nil {
			return
		}
		sent = next
	}
}

// flush sends what was written. A writer that cannot is none that a client waits behind.
func flush(rc *http.ResponseController) error {
	if err := rc.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
