package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRedirects is how often a server may send us elsewhere.
	maxRedirects = 5
	// maxHeader is the largest header that is read, in bytes.
	maxHeader = 64 << 10
)

// A refusal is an answer of a server that is no list.
type refusal struct {
	what string
	wait time.Duration // what the server asks for
}

// Error says what the server answered.
func (r *refusal) Error() string { return r.what }

// newSum is what the texts of lists are summed with.
func newSum() hash.Hash { return sha256.New() }

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

// newClient makes a client that keeps no connections: it is used once in hours.
func newClient(how Download) *http.Client {
	transport := how.transport
	if transport == nil {
		transport = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ForceAttemptHTTP2:      true,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		return checkRedirect(r, via, how.Header)
	}}
}

// checkRedirect follows a server elsewhere, a few times, and never from https to http. What
// is secret stays with the list's own host.
func checkRedirect(r *http.Request, via []*http.Request, secret http.Header) error {
	first := via[0].URL
	switch {
	case len(via) > maxRedirects:
		return &refusal{what: fmt.Sprintf("is sent elsewhere more than %d times", maxRedirects)}
	case r.URL.Scheme != "https" && (first.Scheme == "https" || r.URL.Scheme != "http"):
		return &refusal{what: fmt.Sprintf("is sent from %s to %s at %s", first.Scheme, r.URL.Scheme, r.URL.Host)}
	}
	r.Header.Del("Referer") // the query of the address may be secret
	if r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		for name := range secret {
			r.Header.Del(name)
		}
	}
	return nil
}

// fetch asks the server for the list and takes what it gets. Fresh is how long the server
// says that need not be repeated.
func (d *download) fetch(ctx context.Context, now time.Time) (p Parsed, differs bool, fresh time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.how.Timeout)
	defer cancel()
	answer, err := d.ask(ctx)
	if err != nil {
		return Parsed{}, false, 0, d.explain(ctx, err)
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotModified && d.held.any:
		d.record.Checked = now
		d.good(now, now)
		return Parsed{}, false, maxAge(answer.Header), nil
	case answer.StatusCode != http.StatusOK:
		return Parsed{}, false, 0, &refusal{
			what: "the server answered " + status(answer.StatusCode),
			wait: retryAfter(answer.Header, now),
		}
	}
	p, differs, err = d.take(answer, now)
	if err != nil {
		return Parsed{}, false, 0, d.explain(ctx, err)
	}
	return p, differs, maxAge(answer.Header), nil
}

// ask sends the request.
func (d *download) ask(ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.address.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", d.how.UserAgent)
	r.Header.Set("Accept", "*/*")
	for name, values := range d.how.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if d.held.any && d.record.ETag != "" {
		r.Header.Set("If-None-Match", d.record.ETag)
	}
	if d.held.any && d.record.LastModified != "" {
		r.Header.Set("If-Modified-Since", d.record.LastModified)
	}
	return d.client.Do(r)
}

// take reads the list that was sent, and saves it if it is good.
func (d *download) take(answer *http.Response, now time.Time) (Parsed, bool, error) {
	text := d.shelf.draft()
	defer text.drop()
	limits := d.options.Limits
	limits.At = now
	kind := answer.Header.Get("Content-Type")
	p, err := parse(io.TeeReader(answer.Body, text), d.options.Format, limits, kind, d.address.Path)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("is not whole: %w", err)
	}
	if err != nil {
		return Parsed{}, false, &refusal{what: err.Error()}
	}
	p, differs, err := d.accept(p, text.digest(), now)
	if err != nil {
		return Parsed{}, false, &refusal{what: err.Error()}
	}
	d.good(now, now)
	d.mu.Lock()
	d.status.FromCopy = false
	d.mu.Unlock()
	d.shelve(text, answer.Header, now)
	return p, differs, nil
}

// shelve saves a good list. Without a shelf only what the server said of it is kept.
func (d *download) shelve(text *draft, h http.Header, now time.Time) {
	name, err := text.keepText()
	if err != nil {
		d.warn(err)
		name = ""
	}
	d.record = record{
		Where: d.record.Where, Text: name, SHA256: hexOf(text.digest()), Tried: d.record.Tried,
		ETag: h.Get("ETag"), LastModified: h.Get("Last-Modified"), ContentType: h.Get("Content-Type"), Fetched: now, Checked: now,
	}
	if err := d.shelf.save(d.record); err != nil {
		d.warn(err)
		return
	}
	d.shelf.sweep(name) // only now is nothing else spoken of
}

// explain makes an error one that says what happened, without the address around it.
func (d *download) explain(ctx context.Context, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("took longer than %s", d.how.Timeout)
	}
	return err
}

// status says a status in words.
func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// retryAfter is how long the server asks us to stay away, in seconds or until a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(value); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// maxAge is how long the server says that the list will stay as it is.
func maxAge(h http.Header) time.Duration {
	for _, part := range strings.Split(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}
