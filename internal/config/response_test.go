package config

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestWitness: what is known of an answer, in whatever way handlers give it.
func TestWitness(t *testing.T) {
	failure := errors.New("broken")
	tests := []struct {
		name   string
		serve  func(w http.ResponseWriter) error
		status int
		bytes  int64
	}{
		{"says nothing", func(http.ResponseWriter) error { return nil }, 200, 0},
		{"writes a body alone", func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, "hello")
			return err
		}, 200, 5},
		{"not modified", func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}, 304, 0},
		{"early hints are no answer", func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			return nil
		}, 404, 0},
		{"the first status counts", func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusForbidden)
			w.WriteHeader(http.StatusOK)
			return nil
		}, 403, 0},
		{"reads from a file", func(w http.ResponseWriter) error {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("0123456789"))
			return err
		}, 200, 10},
		{"flushes first", func(w http.ResponseWriter) error {
			err := http.NewResponseController(w).Flush()
			w.WriteHeader(http.StatusTeapot)
			return err
		}, 200, 0},
		{"leaves it to error routes", func(http.ResponseWriter) error {
			return caddyhttp.Error(http.StatusUnauthorized, failure)
		}, 401, 0},
		{"fails", func(http.ResponseWriter) error { return failure }, 500, 0},
		{"fails in mid-answer", func(w http.ResponseWriter) error {
			_, _ = io.WriteString(w, "half")
			return failure
		}, 200, 4},
		{"takes the connection over", func(w http.ResponseWriter) error {
			_, _, err := http.NewResponseController(w).Hijack()
			return err
		}, 0, 0},
		{"switches protocols", func(w http.ResponseWriter) error {
			w.WriteHeader(http.StatusSwitchingProtocols)
			_, _, err := http.NewResponseController(w).Hijack()
			return err
		}, 101, 0},
	}
	for _, tt := range tests {
		w := &witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: hijackable{httptest.NewRecorder()}}}
		err := tt.serve(w)
		if got := w.response(err, false); got.Status != tt.status || got.Bytes != tt.bytes {
			t.Errorf("%s: status %d and %d bytes, want %d and %d", tt.name, got.Status, got.Bytes, tt.status, tt.bytes)
		}
	}
	silent := &witness{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: httptest.NewRecorder()}}
	if got := silent.response(nil, true); got.Status != 0 {
		t.Errorf("after a panic: status %d, want none", got.Status)
	}
}

// hijackable is a recorder whose connection can be taken over.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, new(bufio.ReadWriter), nil
}
