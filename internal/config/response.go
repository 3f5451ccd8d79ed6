package config

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A Response is what became of a request that was passed on.
type Response struct {
	// Status of the answer: of one that handlers left to Caddy's error routes, what
	// they were told; 0 if nobody knows, since the connection was taken over or the
	// handlers panicked before they answered.
	Status int
	// Bytes of the body that were written, compressed or not as the later handlers left
	// it, and as far as the client took them.
	Bytes int64
	// Header of the answer. It must not be changed.
	Header http.Header
}

// A witness sees an answer go by. All else goes to the writer that it wraps.
type witness struct {
	caddyhttp.ResponseWriterWrapper

	status   int
	bytes    int64
	hijacked bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *witness) WriteHeader(status int) {
	// What begins with 1 is no answer yet, save for the one that ends HTTP.
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *witness) Write(data []byte) (int, error) {
	w.begin()
	n, err := w.ResponseWriter.Write(data)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom implements [io.ReaderFrom], by which files are sent without a copy.
func (w *witness) ReadFrom(from io.Reader) (int64, error) {
	w.begin()
	n, err := w.ResponseWriterWrapper.ReadFrom(from)
	w.bytes += n
	return n, err
}

// Hijack implements [http.Hijacker]. What is sent afterwards is not seen.
func (w *witness) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, buffer, err
}

// Flush implements [http.Flusher], for handlers that know no other way.
func (w *witness) Flush() { _ = w.FlushError() }

// FlushError is what [http.ResponseController] looks for.
func (w *witness) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// begin notes the status of an answer that was begun without one.
func (w *witness) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// response is what was seen, once the handlers have returned err, or have panicked.
func (w *witness) response(err error, panicked bool) Response {
	seen := Response{Status: w.status, Bytes: w.bytes, Header: w.Header()}
	var failed caddyhttp.HandlerError
	switch {
	case seen.Status != 0 || w.hijacked || panicked:
	case errors.As(err, &failed) && failed.StatusCode != 0:
		seen.Status = failed.StatusCode
	case err != nil:
		seen.Status = http.StatusInternalServerError
	default: // the server answers for handlers that say nothing
		seen.Status = http.StatusOK
	}
	return seen
}
