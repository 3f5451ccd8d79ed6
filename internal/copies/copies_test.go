package copies

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestSend(t *testing.T) {
	date := noon.Add(-time.Hour).Format(http.TimeFormat)
	c := Copy{
		Status: 200, At: noon, aged: time.Minute, modified: noon.Add(-time.Hour), Body: []byte("0123456789"),
		Header: header("Content-Type", "text/plain", "Etag", `"x"`, "Last-Modified", date, "X-Own", "a"),
	}
	missing := Copy{Status: 404, At: noon, Body: []byte("nothing"), Header: header("Content-Type", "text/plain")}
	head := httptest.NewRequest(http.MethodHead, "/", nil)
	for name, step := range map[string]struct {
		copy   *Copy
		r      *http.Request
		status int
		body   string
		fields http.Header // that are wanted
	}{
		"get":           {&c, get("/"), 200, "0123456789", header("Content-Length", "10", "Etag", `"x"`, "Age", "90", "X-Own", "a", "X-Before", "b", "Last-Modified", date)},
		"head":          {&c, head, 200, "", header("Content-Length", "10")},
		"tag":           {&c, get("/", "If-None-Match", `"x"`), 304, "", header("Etag", `"x"`, "Age", "90")},
		"another tag":   {&c, get("/", "If-None-Match", `"y"`), 200, "0123456789", nil},
		"date":          {&c, get("/", "If-Modified-Since", date), 304, "", nil},
		"range":         {&c, get("/", "Range", "bytes=2-3"), 206, "23", header("Content-Range", "bytes 2-3/10", "Content-Length", "2")},
		"range, if":     {&c, get("/", "Range", "bytes=2-3", "If-Range", `"y"`), 200, "0123456789", nil},
		"beyond":        {&c, get("/", "Range", "bytes=20-"), 416, "invalid range: failed to overlap\n", nil},
		"missing":       {&missing, get("/", "Range", "bytes=2-3"), 404, "nothing", header("Content-Length", "7")},
		"missing, head": {&missing, head, 404, "", header("Content-Length", "7")},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Before", "b")
		step.copy.Send(w, step.r, noon.Add(30*time.Second))
		if w.Code != step.status || w.Body.String() != step.body {
			t.Errorf("%s: %d %q", name, w.Code, w.Body)
		}
		for field := range step.fields {
			if got := w.Result().Header.Get(field); got != step.fields.Get(field) {
				t.Errorf("%s: %s: %q, want %q", name, field, got, step.fields.Get(field))
			}
		}
	}
	if len(c.Header) != 4 {
		t.Errorf("the copy was changed: %v", c.Header)
	}
}

// TestSendEncoded: what is encoded is sent as it is, and its type is not guessed at.
func TestSendEncoded(t *testing.T) {
	c := Copy{Status: 200, At: noon, coding: "gzip", Body: []byte("\x1f\x8b..."), Header: header("Content-Encoding", "gzip")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.Send(w, r, noon) }))
	defer server.Close()
	r, err := http.NewRequest(http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.ContentLength != 5 || len(res.Header["Content-Type"]) > 0 || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d, %v", res.ContentLength, res.Header)
	}
}
