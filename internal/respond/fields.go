package respond

import (
	"net/http"
	"strconv"
	"strings"
)

const (
	// cheapFields is how many fields Go keeps in one small block. With one more they become a table, which is
	// made once for the handlers and once for the server, and costs more than all else that a refusal does.
	cheapFields = 8
	// mostCounted is the longest body that servers are left to count. They do as far as one fits into their
	// buffers, of which the smallest has 2 kB.
	mostCounted = 1 << 10
)

// describe sets the fields of a direct answer, but leaves to the server what it adds by itself just the
// same: the length of a short body, and the type of a text of ours where that would be one field too many.
// Values are not shared between answers, for Caddy's header directive changes them in place, and the capacity of each
// ends with it.
func (f *Refusal) describe(h http.Header, kind string, size int, method string) {
	v := []string{noStore, kind}
	h["Cache-Control"] = v[0:1:1]
	bodyless := method == http.MethodHead
	if bodyless || size > mostCounted {
		h["Content-Length"] = []string{strconv.Itoa(size)}
	}
	if strings.Contains(f.Message, "{") {
		// It may carry words of the client's own, through a placeholder.
		h["X-Content-Type-Options"] = []string{"nosniff"}
	}
	plain := kind == textPlain && f.Message == "" && !bodyless
	if _, there := h["Content-Type"]; there || !plain || len(h) != cheapFields {
		h["Content-Type"] = v[1:2:2]
	}
}

// describeAll sets all fields of an answer that is not written at once.
func describeAll(h http.Header, kind string, size int) {
	v := []string{noStore, kind, "nosniff", strconv.Itoa(size)}
	h["Cache-Control"] = v[0:1:1]
	h["Content-Type"] = v[1:2:2]
	h["X-Content-Type-Options"] = v[2:3:3]
	h["Content-Length"] = v[3:4:4]
}
