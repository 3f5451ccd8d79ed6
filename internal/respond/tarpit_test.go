package respond

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a response writer that notes when it was written to.
type slow struct {
	header http.Header
	begun  time.Time
	notes  []string
	deaf   time.Duration // after what time writes fail; 0 for never
	read   time.Time     // deadlines
	write  time.Time
}

func newSlow() *slow { return &slow{header: http.Header{}, begun: time.Now()} }

func (s *slow) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf("%v "+format, append([]any{time.Since(s.begun)}, args...)...))
}

func (s *slow) Header() http.Header    { return s.header }
func (s *slow) WriteHeader(status int) { s.note("%d", status) }
func (s *slow) FlushError() error {
	if s.deaf > 0 && time.Since(s.begun) > s.deaf {
		return errors.New("broken pipe")
	}
	return nil
}

func (s *slow) Write(b []byte) (int, error) {
	err := s.FlushError()
	if err == nil && len(b) > 0 {
		s.note("%q", b)
	}
	return len(b), err
}

func (s *slow) SetReadDeadline(t time.Time) error {
	s.read = t
	return nil
}

func (s *slow) SetWriteDeadline(t time.Time) error {
	s.write = t
	return nil
}

// enter takes a place that must be there.
func enter(t *testing.T, p *Tarpit) {
	t.Helper()
	if !p.Enter() {
		t.Fatal("there is no place")
	}
}

func TestTarpitDrips(t *testing.T) {
	tests := []struct {
		name   string
		method string
		kind   string // of the request's content
		each   time.Duration
		want   string
	}{
		{"GET", "GET", "", 3 * time.Second, `0s 403; 1s "For"; 2s "bidd"; 3s "en.\n"`},
		{"for longer than the body is", "GET", "", 22 * time.Second, `0s 403; 2s "F"; 4s "o"; 6s "r"; 8s "b"; 10s "i"; 12s "d"; 14s "d"; 16s "e"; 18s "n"; 20s "."; 22s "\n"`},
		{"for a moment", "POST", "text/plain", time.Second, `0s 403; 1s "Forbidden.\n"`},
		{"HEAD", "HEAD", "", 10 * time.Second, `10s 403`},
		{"gRPC", "POST", "application/grpc", 10 * time.Second, `10s 200`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w, r := NewTarpit(1, tt.each), newSlow(), get("")
				r.Method = tt.method
				r.Header.Set("Content-Type", tt.kind)
				enter(t, p)
				if p.Enter() {
					t.Error("a second place in a tarpit for one")
				}
				p.Refuse(w, r, &Refusal{Status: 403, Code: PermissionDenied, Wait: time.Hour, Message: "Forbidden.\n"})
				if got := strings.Join(w.notes, "; "); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				if w.header.Get("Cache-Control") != "no-store" || w.header.Get("Retry-After") != "3600" {
					t.Errorf("header %v", w.header)
				}
				if w.header.Get("Connection") != "close" {
					t.Error("the connection goes on, and waits for the request's body")
				}
				// What hangs in a write ends, and not before the answer could be complete.
				if late := w.write.Sub(w.begun); late <= tt.each || late > tt.each+2*time.Second {
					t.Errorf("writes end after %s", late)
				}
				enter(t, p) // the place is free again
			})
		})
	}
}

// TestTarpitLetsGo: L56, the place of a client that goes away is free at once.
func TestTarpitLetsGo(t *testing.T) {
	tests := []struct {
		name, method string
		leave        func(p *Tarpit, cancel func()) // nil: nobody, and writes fail
		after        time.Duration
		body         string
	}{
		{"the client is gone", "GET", func(_ *Tarpit, cancel func()) { cancel() }, 2500 * time.Millisecond, `"F"; "or"`},
		{"the client is gone before the head", "HEAD", func(_ *Tarpit, cancel func()) { cancel() }, 2500 * time.Millisecond, ""},
		{"writes fail", "GET", nil, 3 * time.Second, `"F"; "or"`},
		{"the tarpit ends", "GET", func(p *Tarpit, _ func()) { p.End(); p.End() }, 2500 * time.Millisecond, `"F"; "or"; "bidden"`},
		{"the tarpit ends before the head", "HEAD", func(p *Tarpit, _ func()) { p.End() }, 2500 * time.Millisecond, `403`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w, r := NewTarpit(1, 6*time.Second), newSlow(), get("")
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				r.Method = tt.method
				if tt.leave != nil {
					time.AfterFunc(2500*time.Millisecond, func() { tt.leave(p, cancel) })
				} else {
					w.deaf = 2500 * time.Millisecond
				}
				enter(t, p)
				p.Refuse(w, r.WithContext(ctx), &Refusal{Status: 403, Message: "Forbidden"})
				if took := time.Since(w.begun); took != tt.after {
					t.Errorf("let go after %s, want %s", took, tt.after)
				}
				var body []string
				for _, note := range w.notes {
					if _, text, _ := strings.Cut(note, " "); text != "403" || r.Method == "HEAD" {
						body = append(body, text)
					}
				}
				if got := strings.Join(body, "; "); got != tt.body {
					t.Errorf("sent %s, want %s", got, tt.body)
				}
				if p.held.Load() != 0 {
					t.Error("the place is still taken")
				}
			})
		})
	}
}

// TestTarpitTakesOnlySoMany: however many come at once.
func TestTarpitTakesOnlySoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, clients = 128, 1000
		p := NewTarpit(most, 10*time.Second)
		var held, refused int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				entered := p.Enter()
				mu.Lock()
				if entered {
					held++
				} else {
					refused++
				}
				mu.Unlock()
				if entered {
					p.Refuse(newSlow(), get(""), &Refusal{Status: 403})
				}
			})
		}
		synctest.Wait()
		if held != most || refused != clients-most {
			t.Errorf("%d held and %d refused, want %d and %d", held, refused, most, clients-most)
		}
		begun := time.Now()
		p.End()
		wg.Wait()
		if took := time.Since(begun); took > 0 {
			t.Errorf("let go after %s", took)
		}
		if p.Enter() {
			t.Error("takes places after its end")
		}
	})
}

// TestTarpitDropsBodies: in HTTP/2 and 3 what nobody reads would hold up all streams of
// the connection; in HTTP/1 to close the body is to wait for it.
func TestTarpitDropsBodies(t *testing.T) {
	for major := 1; major <= 3; major++ {
		synctest.Test(t, func(t *testing.T) {
			p, w, r := NewTarpit(1, time.Second), newSlow(), get("")
			body := &closing{Reader: strings.NewReader("upload")}
			r.Method, r.Body, r.ProtoMajor = "POST", body, major
			enter(t, p)
			p.Refuse(w, r, &Refusal{Status: 403})
			if rest, _ := io.ReadAll(body.Reader); body.closed != (major > 1) || (len(rest) == 0) != (major > 1) || w.read.IsZero() != (major == 1) {
				t.Errorf("HTTP/%d: closed %v, left %q, reads end at %s", major, body.closed, rest, w.read)
			}
			if closes := w.header.Get("Connection") == "close"; closes != (major == 1) {
				t.Errorf("HTTP/%d: closes the connection: %v", major, closes)
			}
		})
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// TestTarpitBehindAnyWriter: a writer that can neither flush nor have deadlines gets the
// whole answer.
func TestTarpitBehindAnyWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := NewTarpit(1, 4*time.Second), httptest.NewRecorder()
		enter(t, p)
		p.Refuse(struct{ http.ResponseWriter }{w}, get("application/json"), &Refusal{Status: 403})
		if got := w.Body.String(); w.Code != 403 || got != `{"title":"Forbidden","status":403}` || w.Header().Get("Content-Length") != itoa(len(got)) {
			t.Errorf("got %d %q, header %v", w.Code, got, w.Header())
		}
	})
}

func TestAbort(t *testing.T) {
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("got %v", got)
		}
	}()
	Abort()
}
