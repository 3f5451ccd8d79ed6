package config

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/internal/copies"
)

// A tape sees an answer go by as a witness does, and has its owner say what becomes of it.
type tape struct {
	witness

	owner     tapeOwner
	recording *copies.Recording // nil if nothing is recorded
	begun     bool
	held      bool            // whether nothing of the answer goes to the client
	mute      context.Context // that of a body which does not, until it is done: it asked by HEAD, and the site by GET
	muted     int64           // how many bytes did not
	torn      bool            // whether the client did not take all
}

// A tapeOwner decides about an answer before it begins.
type tapeOwner interface {
	// begin is told the status and header of the answer, once. It returns what records the body,
	// and whether the answer is held back.
	begin(status int, h http.Header) (rec *copies.Recording, held bool)
	// lost is told that the body is too long to be recorded.
	lost()
}

// mostMuted is how many bytes of a body are taken in that nobody wants.
const mostMuted = 1 << 20

// errMuted ends a body that nobody wants.
var errMuted = errors.New("weir: enough of the body is known")

// WriteHeader implements [http.ResponseWriter].
func (t *tape) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		if t.held {
			return
		}
		if !t.begun {
			t.begun = true
			if t.recording, t.held = t.owner.begin(status, t.Header()); t.held {
				t.status = status
				return
			}
		}
	}
	t.witness.WriteHeader(status)
}

// open begins an answer that has no status.
func (t *tape) open() {
	if !t.begun {
		t.WriteHeader(http.StatusOK)
	}
}

// Write implements [http.ResponseWriter].
func (t *tape) Write(data []byte) (int, error) {
	t.open()
	if t.held {
		return len(data), nil
	}
	if t.recording != nil {
		_, _ = t.recording.Write(data)
		if t.recording.Lost() {
			t.recording.Drop()
			t.recording = nil
			t.owner.lost()
		}
	}
	if t.mute != nil {
		if t.muted += int64(len(data)); t.recording == nil && t.muted > mostMuted || t.mute.Err() != nil {
			return 0, errMuted
		}
		return len(data), nil
	}
	n, err := t.witness.Write(data)
	t.torn = t.torn || err != nil
	return n, err
}

// ReadFrom implements [io.ReaderFrom]. What nobody looks at is sent without a copy.
func (t *tape) ReadFrom(from io.Reader) (int64, error) {
	t.open()
	if t.recording != nil || t.mute != nil || t.held {
		return io.Copy(struct{ io.Writer }{t}, from)
	}
	n, err := t.witness.ReadFrom(from)
	t.torn = t.torn || err != nil
	return n, err
}

// Hijack implements [http.Hijacker].
func (t *tape) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := t.witness.Hijack()
	t.begun = t.begun || err == nil
	return conn, buffer, err
}

// Flush implements [http.Flusher].
func (t *tape) Flush() { _ = t.FlushError() }

// FlushError is what [http.ResponseController] looks for.
func (t *tape) FlushError() error {
	t.open()
	if t.held {
		return nil
	}
	return t.witness.FlushError()
}

// attempt passes a request on. Handlers that break off an answer which is held back break off nothing that
// the client has seen.
func (t *tape) attempt(next caddyhttp.Handler, r *http.Request) error {
	defer func() {
		if cause := recover(); cause != nil && (cause != http.ErrAbortHandler || !t.held) {
			panic(cause)
		}
	}()
	return next.ServeHTTP(t, r)
}

// whole reports whether the recording is that of a whole answer, once the handlers have returned err.
func (t *tape) whole(err error, r *http.Request) bool {
	return t.recording != nil && err == nil && !t.torn && !t.hijacked && r.Context().Err() == nil && t.recording.Whole()
}
