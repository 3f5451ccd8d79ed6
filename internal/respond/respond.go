// Package respond answers clients that are refused.
package respond

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/headers"
)

// A Refusal says how a request is refused.
type Refusal struct {
	// Status of the answer, an error status.
	Status int
	// Message for the client, in which placeholders are replaced; braces that are
	// none stay, as in Caddy's respond. Default: a sentence that fits the status
	// and the wait.
	Message string
	// Wait is after what time the same request may pass. 0 if that is unknown,
	// [limiter.Never] if it never may; neither sets Retry-After.
	Wait time.Duration
	// Reason is one sentence more for a Message that is not given, if there is more to
	// say than its status does. It is written as it stands, in JSON too: no quotes in it.
	Reason string
	// Plain leaves the site's error routes out: the client cannot read a page.
	Plain bool
	// Code takes the place of Status for gRPC calls. Default: ResourceExhausted.
	Code Code
	// Decision that refused the request; nil if no limit did.
	Decision *limiter.Decision
}

// misleading are the fields that earlier handlers may have set for the content which
// the client does not get, or by which a shared cache would be told to keep the
// refusal.
var misleading = [...]string{
	"Content-Encoding", "Content-Disposition", "Content-Language", "Etag", "Last-Modified", "Expires",
	"Cdn-Cache-Control", "Surrogate-Control",
}

// Refuse answers a request instead of the handlers that follow. Header fields that
// stand in w already are sent with the answer, save those about content and caches.
// The request's body is not read, and the answer does not wait for it.
//
// If the site handles errors of this status with routes of its own (handle_errors),
// nothing is written: the error that is returned makes Caddy run them, and must be
// returned unwrapped. Error routes of a subroute inside of a site, which only JSON can
// express, are not seen. Else the answer is a line of text, or problem details (RFC
// 9457) for clients that would rather have JSON, and the error is nil.
//
// A gRPC call is answered as its protocol wants it, with f.Code in a header field, status 200,
// no body and no error routes.
func Refuse(w http.ResponseWriter, r *http.Request, f *Refusal) error {
	leaveBody(w, r)
	h := w.Header()
	after := f.begin(h)
	message := f.message(r)
	if kind := grpcKind(r); kind != "" {
		refuseGRPC(w, kind, f, message, after)
		endBody(w, r)
		return nil
	}
	if !f.Plain {
		if handled := errorRoutes(r, f, message, after); handled != nil {
			h["Cache-Control"] = []string{noStore}
			return handled
		}
	}

	buffer := buffers.Get().(*[]byte)
	body, kind := f.body(r, message, after, (*buffer)[:0])
	f.describe(h, kind, len(body), r.Method)
	w.WriteHeader(f.Status)
	if r.Method != http.MethodHead {
		// A client that is gone needs no answer.
		_, _ = w.Write(body)
	}
	endBody(w, r)
	*buffer = body
	buffers.Put(buffer)
	return nil
}

// begin takes out what earlier handlers said of content that the client does not get, and
// says when it may come back: after that many seconds, or 0 if that is unknown.
func (f *Refusal) begin(h http.Header) (after int64) {
	for _, name := range misleading {
		delete(h, name)
	}
	if f.Wait > 0 {
		after = headers.RetryAfter(h, f.Wait)
	}
	return after
}

// body appends the body of the answer in the form that the client prefers, and returns it
// with its media type.
func (f *Refusal) body(r *http.Request, message string, after int64, b []byte) (body []byte, kind string) {
	if asksJSON(r.Header["Accept"]) {
		return appendProblem(b, f, message, after), problemJSON
	}
	return appendText(b, f, message, after), textPlain
}

// The values of header fields.
const (
	noStore     = "no-store"
	textPlain   = "text/plain; charset=utf-8"
	problemJSON = "application/problem+json"
)

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 256)
	return &b
}}

// message returns the user's message with its placeholders replaced; "" if there is
// none.
func (f *Refusal) message(r *http.Request) string {
	if !strings.Contains(f.Message, "{") {
		return f.Message
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return f.Message
	}
	return repl.ReplaceKnown(f.Message, "")
}

// appendText appends the answer as text: the user's message, or what the status means and
// what the client can do.
func appendText(b []byte, f *Refusal, message string, after int64) []byte {
	if message != "" {
		return append(b, message...)
	}
	b = append(b, title(f.Status)...)
	b = append(b, '.')
	b = appendHint(b, " ", f, after, "")
	return append(b, '\n')
}

// appendHint appends why it was refused and what the client can do, between two texts;
// nothing if there is nothing to say.
func appendHint(b []byte, before string, f *Refusal, after int64, behind string) []byte {
	if f.Reason == "" && after == 0 && f.Wait != limiter.Never {
		return b
	}
	b = append(append(b, before...), f.Reason...)
	if f.Reason != "" && after > 0 {
		b = append(b, ' ')
	}
	switch {
	case after > 0:
		b = append(b, "Try again in "...)
		b = append(strconv.AppendInt(b, after, 10), " s."...)
	case f.Wait == limiter.Never:
		b = append(b, "Its cost is above the limit."...)
	}
	return append(b, behind...)
}

// title returns what a status means in short.
func title(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "Refused"
}

// asError returns the error that stands for the refusal in error routes and logs.
func asError(f *Refusal, message string, after int64) caddyhttp.HandlerError {
	text := strings.TrimRight(string(appendText(nil, f, message, after)), ".\n")
	return caddyhttp.Error(f.Status, errors.New(text))
}
