package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Check is the configuration of a weir_check handler, which answers workers that ask whether
// they may run a job, or take a message: by the shared list, and by those rules of block
// handlers that name the source job or websocket. It passes nothing on.
//
// What is asked is described as an [Ask] by the query, a form, or JSON; several at once by
// an array. The answer is an [Answer], or as many.
type Check struct {
	// Allow are addresses and CIDR ranges of those who may ask; others get 403. Default: the
	// private networks, and this machine.
	Allow []string `json:"allow,omitempty"`
}

// Validate says what is wrong with the handler.
func (c *Check) Validate() error {
	r := newReport()
	_, err := blocklist.ParsePrefixes(c.Allow)
	r.in("allow").problem(err)
	return r.err()
}

// A Checker is a Check that is built. It is safe for concurrent use.
type Checker struct {
	shared *Shared
	allow  *blocklist.Prefixes
}

// Build makes a check that is valid.
func (c *Check) Build(shared *Shared) (*Checker, error) {
	ranges := c.Allow
	if len(ranges) == 0 {
		ranges = caddyhttp.PrivateRangesCIDR()
	}
	allow, err := blocklist.ParsePrefixes(ranges)
	if err == nil {
		_, err = shared.list.open()
	}
	shared.checkers.Add(1)
	return &Checker{shared, allow}, err
}

// Answer answers a request.
func (c *Checker) Answer(w http.ResponseWriter, r *http.Request) error {
	if !c.allow.Contains(ClientIP(r)) {
		return caddyhttp.Error(http.StatusForbidden, errors.New("weir_check: the client is not allowed to ask"))
	}
	if err := c.shared.Check(w, r); err != nil {
		return writeAnswer(w, err.Status, map[string]string{"error": err.Error()})
	}
	return nil
}

// Bounds of what is asked at once.
const (
	maxAskBody = 1 << 20 // bytes
	maxAsks    = 1000
)

// A CheckError says what is wrong with what was asked.
type CheckError struct {
	// Status of the answer.
	Status int
	err    error
}

// Error says what is wrong.
func (e *CheckError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *CheckError) Unwrap() error { return e.err }

// Check reads what a request asks, and answers it. If that is not understood nothing is
// written.
func (s *Shared) Check(w http.ResponseWriter, r *http.Request) *CheckError {
	asks, several, err := readAsks(w, r)
	if err != nil {
		return err
	}
	requests := make([]blocklist.Request, len(asks))
	for i := range asks {
		var err error
		if requests[i], err = asks[i].Request(); err != nil {
			if several {
				err = nth(i, err)
			}
			return &CheckError{http.StatusBadRequest, err}
		}
	}
	answers := make([]Answer, len(asks))
	now := Now()
	for i := range requests {
		answers[i] = s.decide(&requests[i], now)
	}
	var answer any = answers
	if !several {
		answer = answers[0]
	}
	if err := writeAnswer(w, http.StatusOK, answer); err != nil {
		s.logger.Debug("the answer to a check was not taken", zap.Error(err))
	}
	return nil
}

func writeAnswer(w http.ResponseWriter, status int, answer any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(answer)
}

// readAsks reads what a request asks.
func readAsks(w http.ResponseWriter, r *http.Request) (asks []Ask, several bool, _ *CheckError) {
	wrong := func(status int, format string, args ...any) ([]Ask, bool, *CheckError) {
		return nil, false, &CheckError{status, fmt.Errorf(format, args...)}
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return readForm(r.URL.RawQuery)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return wrong(http.StatusMethodNotAllowed, "method: must be GET or POST, got %s", r.Method)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAskBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return wrong(http.StatusRequestEntityTooLarge, "body: must be at most %d bytes", maxAskBody)
	case err != nil:
		return wrong(http.StatusBadRequest, "body: %w", err)
	}
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case "application/json":
		asks, several, err := readJSON(body)
		switch {
		case err != nil:
			return wrong(http.StatusBadRequest, "%w", err)
		case len(asks) > maxAsks:
			return wrong(http.StatusRequestEntityTooLarge, "must be at most %d at once, got %d", maxAsks, len(asks))
		}
		return asks, several, nil
	case "application/x-www-form-urlencoded":
		return readForm(string(body))
	default:
		w.Header().Set("Accept", "application/json, application/x-www-form-urlencoded")
		return wrong(http.StatusUnsupportedMediaType, "content type: must be application/json or application/x-www-form-urlencoded, got %q", kind)
	}
}

// readForm reads what a query or a form asks.
func readForm(text string) ([]Ask, bool, *CheckError) {
	values, err := url.ParseQuery(text)
	if err == nil {
		var a Ask
		if a, err = readValues(values); err == nil {
			return []Ask{a}, false, nil
		}
	}
	return nil, false, &CheckError{http.StatusBadRequest, err}
}
