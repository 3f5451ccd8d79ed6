// Package copies keeps whole answers of a site in memory, and says which of them may be kept and
// who may be given one.
//
// A [Shelf] holds copies under the addresses that they answer, in a bounded number of bytes. A
// [Recording] is a copy in the making, of an answer that is on its way to a client. [Flights] let
// requests for one address wait for the first of them. The package knows nothing of Caddy, and the
// clock is an argument.
//
// What may be kept, and for whom, is what RFC 9111 (HTTP Caching) lets a cache do that many share,
// and no more than this: answers to requests that show no credentials of any kind, by header fields
// that say nothing of one client.
package copies

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Copy is a whole answer of the site. What its fields refer to must not be changed: many may hold
// the same.
type Copy struct {
	// Status of the answer.
	Status int
	// Header of the answer, without what belongs to one connection, one client or one moment.
	Header http.Header
	// Body as it was sent, encoded or not.
	Body []byte
	// At is when the site gave the answer, or last said that it still holds.
	At time.Time
	// Until is when the copy is thrown away.
	Until time.Time

	aged     time.Duration // how old it was at At, by its Age field
	modified time.Time     // its Last-Modified; zero if there is none
	coding   string        // its Content-Encoding; empty if there is none
	byAccept bool          // whether the answer depends on Accept
	accept   string        // what the request accepted then
}

// Age is how long ago the site made the answer, or last said that it still holds.
func (c *Copy) Age(now time.Time) time.Duration {
	return max(c.aged+now.Sub(c.At), 0)
}

// born is when the site made the answer, or last said that it still holds.
func (c *Copy) born() time.Time { return c.At.Add(-c.aged) }

// Send answers a GET or HEAD with the copy. If its status is 200 the request's conditions and
// ranges count (RFC 9110, sections 13 and 14), so that the answer may be 304, 206 or 416 as well.
// Header fields that stand in w stay, unless the copy has them.
func (c *Copy) Send(w http.ResponseWriter, r *http.Request, now time.Time) {
	h := w.Header()
	for name, values := range c.Header {
		h[name] = slices.Clone(values) // handlers may change values in place
	}
	h["Age"] = []string{strconv.FormatInt(int64(c.Age(now)/time.Second), 10)}
	if _, told := h["Content-Type"]; !told && c.coding != "" {
		h["Content-Type"] = nil // what is encoded cannot be guessed at
	}
	h["Content-Length"] = []string{strconv.Itoa(len(c.Body))}
	if c.Status == http.StatusOK {
		http.ServeContent(w, r, "", c.modified, bytes.NewReader(c.Body))
		return
	}
	w.WriteHeader(c.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(c.Body) // a client that is gone needs no answer
	}
}

// size is about how many bytes the copy takes.
func (c *Copy) size() int64 {
	n := int64(len(c.Body)) + int64(len(c.accept)) + overhead
	for name, values := range c.Header {
		n += int64(len(name)) + overheadOfField
		for _, value := range values {
			n += int64(len(value))
		}
	}
	return n
}

// What a copy and each of its header fields take besides their bytes.
const (
	overhead        = 512
	overheadOfField = 64
)
