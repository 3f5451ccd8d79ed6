package respond

import (
	"net/http"
	"strconv"
)

// Content is an answer to a reader of a feed in the place of a refusal.
type Content struct {
	// Status of the answer: 200, or 304 without a body.
	Status int
	// Tag, Modified, CacheControl and Type are the fields ETag, Last-Modified, Cache-Control
	// and Content-Type. Empty ones are left out.
	Tag, Modified, CacheControl, Type string
	Body                              []byte
}

// Instead answers a request with content. Header fields that stand in w already are sent as
// well, save those about the content that the client does not get.
func Instead(w http.ResponseWriter, r *http.Request, c *Content) {
	leaveBody(w, r)
	h := w.Header()
	for _, name := range misleading {
		delete(h, name)
	}
	for _, f := range [...]struct{ name, value string }{
		{"Etag", c.Tag}, {"Last-Modified", c.Modified}, {"Cache-Control", c.CacheControl}, {"Content-Type", c.Type},
	} {
		if f.value != "" {
			h.Set(f.name, f.value)
		}
	}
	if c.Status != http.StatusNotModified {
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Length", strconv.Itoa(len(c.Body)))
	}
	w.WriteHeader(c.Status)
	if c.Status != http.StatusNotModified && r.Method != http.MethodHead {
		// A client that is gone needs no answer.
		_, _ = w.Write(c.Body)
	}
	endBody(w, r)
}
