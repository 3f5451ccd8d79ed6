package respond

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whatever a refusal leaves to the server, what arrives is typed and has a length, over HTTP/1 and 2, and however many
// fields stand in the answer already.
func TestFieldsOnTheWire(t *testing.T) {
	for _, c := range []struct {
		name           string
		refusal        Refusal
		accept, kind   string
		nosniff, typed bool // what has to stand in the answer whatever the server adds
	}{
		{name: "text", refusal: Refusal{Status: 429, Wait: time.Minute}, kind: textPlain},
		{name: "a reason", refusal: Refusal{Status: 503, Wait: time.Second, Reason: "The limit cannot be checked at the moment."}, kind: textPlain},
		{name: "a rule", refusal: Refusal{Status: 403}, kind: textPlain},
		{name: "JSON", refusal: Refusal{Status: 429}, accept: "application/json", kind: problemJSON, typed: true},
		{name: "a message", refusal: Refusal{Status: 429, Message: "<html>no</html>"}, kind: textPlain, typed: true},
		{name: "a long message", refusal: Refusal{Status: 429, Message: strings.Repeat("no ", 5000)}, kind: textPlain, typed: true},
		{name: "a client's words", refusal: Refusal{Status: 429, Message: "{http.request.uri}"}, kind: textPlain, nosniff: true, typed: true},
	} {
		for fields := range cheapFields + 3 {
			for _, typed := range []bool{false, true} {
				t.Run(fmt.Sprint(c.name, fields, typed), func(t *testing.T) {
					refuse := func(w http.ResponseWriter, r *http.Request) {
						for i := range fields {
							w.Header().Set(fmt.Sprint("X-Earlier-", i), "set")
						}
						if typed {
							w.Header().Set("Content-Type", "text/html")
						}
						if err := Refuse(w, r, &c.refusal); err != nil {
							t.Error(err)
						}
						if c.typed && w.Header().Get("Content-Type") != c.kind {
							t.Errorf("the type is left to the server: %v", w.Header())
						}
						if _, left := w.Header()["Content-Type"]; left && len(w.Header()) == cheapFields+1 && !c.typed && !typed && r.Method != "HEAD" {
							t.Errorf("one field too many: %v", w.Header())
						}
					}
					arrives(t, refuse, c.accept, func(t *testing.T, r *http.Response, body string) {
						if got := r.Header.Get("Content-Type"); got != c.kind || r.ContentLength < 1 || body != "" && r.ContentLength != int64(len(body)) {
							t.Errorf("type %q, length %d of %q", got, r.ContentLength, body)
						}
						if got := r.Header.Get("X-Content-Type-Options"); (got == "nosniff") != c.nosniff {
							t.Errorf("options %q", got)
						}
						if got := r.Header.Get("Cache-Control"); got != noStore {
							t.Errorf("cache control %q", got)
						}
					})
				})
			}
		}
	}
}

// arrives shows what comes of an answer, over HTTP/1 and 2, to GET and to HEAD.
func arrives(t *testing.T, answer http.HandlerFunc, accept string, check func(t *testing.T, r *http.Response, body string)) {
	for _, two := range []bool{false, true} {
		server := httptest.NewUnstartedServer(answer)
		server.EnableHTTP2 = two
		server.StartTLS()
		for _, method := range []string{"GET", "HEAD"} {
			r, err := http.NewRequest(method, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || (response.ProtoMajor == 2) != two || (len(body) == 0) != (method == "HEAD") {
				t.Errorf("%s %s: %q, %v", response.Proto, method, body, err)
			}
			response.Body.Close()
			check(t, response, string(body))
		}
		server.Close()
	}
}
