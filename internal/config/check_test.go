package config

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/blocklist"
)

func TestAskBecomesARequest(t *testing.T) {
	for name, c := range map[string]struct {
		json string
		want blocklist.Request
	}{
		"a job": {
			`{"handler": "mail.send", "user": "ann", "args": ["list=all", 7, {"a": [1, 2]}, null]}`,
			blocklist.Request{Source: blocklist.Job, Handler: "mail.send", User: "ann", Args: []string{"list=all", "7", `{"a":[1,2]}`, ""}},
		},
		"one argument": {`{"args": "x"}`, blocklist.Request{Source: blocklist.Job, Args: []string{"x"}}},
		"a message": {
			`{"source": "websocket", "message_type": "chat", "client_ip": "::ffff:192.0.2.1", "host": "Example.COM:8443"}`,
			blocklist.Request{Source: blocklist.WebSocket, MessageType: "chat", Client: parseAddr("192.0.2.1"), Host: "Example.COM"},
		},
		"a URL": {
			`{"url": "https://example.com:8443/a//b/../c%20d?x=1#y", "method": "POST", "user_agent": "bot"}`,
			blocklist.Request{
				Source: blocklist.HTTP, Host: "example.com", URL: "/a//b/../c%20d?x=1", Path: "/a/c d", Query: "x=1", Method: "POST",
				Header: map[string][]string{"User-Agent": {"bot"}},
			},
		},
		"a host alone": {`{"url": "http://example.com"}`, blocklist.Request{Source: blocklist.HTTP, Host: "example.com", URL: "/", Path: "/"}},
		"a path of its own": {
			`{"url": "/a?b", "path": "/c", "query": "d", "source": "job", "header": {"x-a": ["1", "2"], "x-b": "3"}}`,
			blocklist.Request{Source: blocklist.Job, URL: "/a?b", Path: "/c", Query: "d", Header: map[string][]string{"X-A": {"1", "2"}, "X-B": {"3"}}},
		},
	} {
		asks, several, err := readJSON([]byte(c.json))
		if err != nil || several || len(asks) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want.Header == nil {
			c.want.Header = map[string][]string{}
		}
		got, err := asks[0].Request()
		if len(c.want.Args) == 4 {
			c.want.Args[3] = got.Args[3] // of null there is no text
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", name, err, got, c.want)
		}
	}
}

// TestAskInAQuery reads the same from a query.
func TestAskInAQuery(t *testing.T) {
	values, err := url.ParseQuery("source=job&handler=mail.send&args=a&args=b&header=X-A:+1&header=X-A:2&client_ip=192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	a, err := readValues(values)
	if err != nil {
		t.Fatal(err)
	}
	want := Ask{Source: "job", Handler: "mail.send", Args: Args{"a", "b"}, ClientIP: "192.0.2.1", Header: map[string][]string{"X-A": {"1", "2"}}}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

// TestFieldsAreKnownToAll holds that a query may say all that JSON may.
func TestFieldsAreKnownToAll(t *testing.T) {
	var words []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Ask]()) {
		word, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		words = append(words, word)
	}
	for _, word := range words {
		if !strings.Contains(unknownField("x").Error(), word) {
			t.Errorf("a query cannot say %s", word)
		}
	}
	if len(words) != len(fields) {
		t.Errorf("JSON has %d fields, a query %d", len(words), len(fields))
	}
}

func TestWrongAsks(t *testing.T) {
	for body, want := range map[string]string{
		`{"handlr": "x"}`:        `unknown field "handlr" (known here: source, `,
		`[{"nothing": 1}]`:       `unknown field "nothing"`,
		`{"user": 7}`:            "user: must be a string, got number",
		`{"header": []}`:         "header: must be an object, got array",
		`7`:                      "must be an object, or an array of objects, got number",
		``:                       "is no JSON",
		`{"user": "x"`:           "is no JSON",
		`{} {}`:                  "more than one JSON value",
		`{"source": "mail"}`:     "source: must be http, websocket or job",
		`{"client_ip": "me"}`:    "client_ip: must be an address",
		`{"url": "example.com"}`: "url: must begin with /, http:// or https://",
		`[{}, {"url": "x"}]`:     "[1]: url: ",
		`[{}, {"nothing": 1}]`:   "[1]: unknown field",
		`[{}, {"user": 7}]`:      "[1]: user: must be a string, got number",
		`[{}, 7]`:                "[1]: must be an object",
		`[{}, {"user"}]`:         "is no JSON",
		`{"header":{"X-A": 7}}`:  "header: X-A: must be a string, or an array of strings",
	} {
		s := &Shared{}
		r := httptest.NewRequest(http.MethodPost, "/weir/check", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if err := s.Check(httptest.NewRecorder(), r); err == nil || err.Status != http.StatusBadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
	for query, want := range map[string]string{
		"user=a&user=b": "user: is given twice", "header=x": "header: must be written as Name: value",
		"": "describes nothing", "%zz": "invalid URL escape", "a=1&b=2": `unknown field "b"`,
	} {
		r := httptest.NewRequest(http.MethodGet, "/weir/check", nil)
		r.URL.RawQuery = query
		if err := new(Shared).Check(httptest.NewRecorder(), r); err == nil || err.Status != http.StatusBadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", query, err, want)
		}
	}
}

// TestAskIsBounded sends too much.
func TestAskIsBounded(t *testing.T) {
	for _, body := range []string{
		`{"user": "` + strings.Repeat("x", maxAskBody) + `"}`,
		`[` + strings.Repeat(`{},`, maxAsks) + `{}]`,
	} {
		r := httptest.NewRequest(http.MethodPost, "/weir/check", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if err := new(Shared).Check(httptest.NewRecorder(), r); err == nil || err.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: got %v", len(body), err)
		}
	}
}

func TestCheckIsGuarded(t *testing.T) {
	shared := build(t, `{}`)
	if err := (&Check{Allow: []string{"192.0.2.0/24", "nobody"}}).Validate(); err == nil || !strings.Contains(err.Error(), "allow: ") {
		t.Errorf("got %v", err)
	}
	for _, c := range []struct {
		allow []string
		who   string
		want  bool
	}{
		{nil, "127.0.0.1:1", true},
		{nil, "10.1.2.3:1", true},
		{nil, "[fd00::1]:1", true},
		{nil, "203.0.113.1:1", false},
		{nil, "@", false},
		{[]string{"203.0.113.0/24"}, "203.0.113.1:1", true},
		{[]string{"203.0.113.0/24"}, "127.0.0.1:1", false},
	} {
		checker, err := (&Check{Allow: c.allow}).Build(shared)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/weir/check?nonsense=1", nil)
		r.RemoteAddr = c.who
		w := httptest.NewRecorder()
		err = checker.Answer(w, r)
		if allowed := err == nil && w.Code == http.StatusBadRequest; allowed != c.want {
			t.Errorf("%s, with allow %q: %v and status %d", c.who, c.allow, err, w.Code)
		}
	}
}
