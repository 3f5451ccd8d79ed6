package respond

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// most is how much of a body a server of HTTP/1 reads behind an answer to keep the
// connection, in bytes. It is net/http's own bound.
const most = 256 << 10

// leaveBody sees to it that the answer does not wait for a body that nobody is going to
// read. It is to be called before the answer begins.
//
// A server of HTTP/1 takes such a body in before it answers, up to a bound, so that the
// connection can go on. Where the body is longer, or the client waits for leave to send it,
// which it does not get, the connection ends with the answer instead.
//
// In HTTP/2 and 3 the body ends with the stream, and nothing has to be done.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && (r.ContentLength > most || expectsContinue(r)) {
		w.Header()["Connection"] = []string{"close"}
	}
}

// endBody ends the body of a request whose client waits for leave to send it, or the server
// would wait for it behind the answer. It is to be called when the answer is written, for it
// also ends the request's context.
func endBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Body == nil || !expectsContinue(r) {
		return
	}
	if http.NewResponseController(w).SetReadDeadline(past) == nil {
		_ = r.Body.Close() // reads, and fails by the deadline
	}
}

// expectsContinue reports whether the client waits for leave to send the body.
func expectsContinue(r *http.Request) bool {
	for _, value := range r.Header["Expect"] {
		if strings.EqualFold(strings.TrimSpace(value), "100-continue") {
			return true
		}
	}
	return false
}

// dropBody throws the body of a request away, what has come of it and what will come, so that
// it takes nothing of the window that all streams of an HTTP/2 or 3 connection share while
// one of them is held up.
func dropBody(rc *http.ResponseController, r *http.Request) {
	if r.ProtoMajor < 2 || r.Body == nil || rc.SetReadDeadline(past) != nil {
		return
	}
	// What is there already has to be read for its part of the window to be given back.
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
}

// past is a deadline for what is not to be waited for at all.
var past = time.Unix(1, 0)
