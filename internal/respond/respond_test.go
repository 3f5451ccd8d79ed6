package respond

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/limiter"
)

// refusedBy returns the decision of zones that refused; a name in brackets is a
// shadow, one after a plus sign allowed.
func refusedBy(zones ...string) *limiter.Decision {
	d := &limiter.Decision{}
	for _, zone := range zones {
		l := &limiter.Limit{Zone: strings.Trim(zone, "[+]"), Shadow: zone[0] == '['}
		d.Asks = append(d.Asks, limiter.Ask{Limit: l})
		d.Results = append(d.Results, limiter.Result{Allowed: zone[0] == '+'})
	}
	return d
}

// get returns a request with a replacer, as Caddy makes it.
func get(accept string) *http.Request {
	r := httptest.NewRequest("GET", "https://example.com/feed", nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	repl := caddy.NewReplacer()
	repl.Set("http.rate_limit.exceeded.name", `a "b"`)
	return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
}

const (
	plain   = "text/plain; charset=utf-8"
	problem = "application/problem+json"
)

func TestRefuse(t *testing.T) {
	tests := []struct {
		name    string
		accept  string
		refusal Refusal
		after   string // Retry-After
		kind    string
		body    string
	}{
		{
			name:    "a limit", // L115
			refusal: Refusal{Status: 429, Wait: 11500 * time.Millisecond, Decision: refusedBy("api")},
			after:   "12", kind: plain, body: "Too Many Requests. Try again in 12 s.\n",
		},
		{
			name:    "a limit, as JSON",
			accept:  "application/json",
			refusal: Refusal{Status: 429, Wait: 11500 * time.Millisecond, Decision: refusedBy("api")},
			after:   "12", kind: problem,
			body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded",` +
				`"status":429,"detail":"Try again in 12 s.","violated-policies":["api"]}`,
		},
		{
			name:    "limits, as JSON",
			accept:  problem,
			refusal: Refusal{Status: 429, Decision: refusedBy("+free", "api", "[shadow]", "api", `"<ü>"`), Message: "no"},
			kind:    problem,
			body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded",` +
				`"status":429,"detail":"no","violated-policies":["api","\"\u003cü\u003e\""]}`,
		},
		{
			name:    "a reason",
			refusal: Refusal{Status: 429, Reason: "It has no name."},
			kind:    plain, body: "Too Many Requests. It has no name.\n",
		},
		{
			name:    "a reason and a wait, as JSON",
			accept:  "application/json",
			refusal: Refusal{Status: 429, Wait: time.Second, Reason: "Nobody knows."},
			after:   "1", kind: problem,
			body: `{"title":"Too Many Requests","status":429,"detail":"Nobody knows. Try again in 1 s."}`,
		},
		{
			name:    "a message in place of a reason",
			refusal: Refusal{Status: 429, Reason: "It has no name.", Message: "no"},
			kind:    plain, body: "no",
		},
		{
			name:    "a cost above the limit", // L35
			refusal: Refusal{Status: 429, Wait: limiter.Never, Decision: refusedBy("api")},
			kind:    plain, body: "Too Many Requests. Its cost is above the limit.\n",
		},
		{
			name:    "a rule", // L116
			refusal: Refusal{Status: 403}, kind: plain, body: "Forbidden.\n",
		},
		{
			name: "a rule that ends, as JSON", accept: "application/json",
			refusal: Refusal{Status: 403, Wait: time.Hour},
			after:   "3600", kind: problem, body: `{"title":"Forbidden","status":403,"detail":"Try again in 3600 s."}`,
		},
		{
			name:    "a message",
			refusal: Refusal{Status: 429, Wait: time.Second, Message: "{http.rate_limit.exceeded.name}: slow down {\"a\":1}{env.WEIR_NONE}"},
			after:   "1", kind: plain, body: `a "b": slow down {"a":1}`,
		},
		{
			name: "a message, as JSON", accept: "application/json",
			refusal: Refusal{Status: 403, Message: "{http.rate_limit.exceeded.name}\n<b>\xff"},
			kind:    problem,
			body:    `{"title":"Forbidden","status":403,"detail":"a \"b\"\u000a\u003cb\u003e` + "\ufffd" + `"}`,
		},
		{
			name:    "a status without a name",
			refusal: Refusal{Status: 499}, kind: plain, body: "Refused.\n",
		},
		{
			name: "a browser", accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", // B29
			refusal: Refusal{Status: 403}, kind: plain, body: "Forbidden.\n",
		},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(tt.name+" "+method, func(t *testing.T) {
				w, r := httptest.NewRecorder(), get(tt.accept)
				r.Method = method
				// Fields that earlier handlers set, and those that must stay.
				for _, name := range []string{"Etag", "Content-Encoding", "CDN-Cache-Control", "RateLimit", "X-Own"} {
					w.Header().Set(name, "earlier")
				}
				w.Header().Set("Cache-Control", "public, max-age=3600")
				if err := Refuse(w, r, &tt.refusal); err != nil {
					t.Fatal(err)
				}
				want := http.Header{
					"Cache-Control": {"no-store"}, // L118
					"Content-Type":  {tt.kind},
					"Ratelimit":     {"earlier"},
					"X-Own":         {"earlier"},
				}
				if method == "HEAD" {
					want["Content-Length"] = []string{itoa(len(tt.body))}
				}
				if strings.Contains(tt.refusal.Message, "{") {
					want["X-Content-Type-Options"] = []string{"nosniff"}
				}
				if tt.after != "" {
					want["Retry-After"] = []string{tt.after}
				}
				if got := w.Header(); w.Code != tt.refusal.Status || !maps.EqualFunc(got, want, slices.Equal) {
					t.Errorf("got  %d %v\nwant %d %v", w.Code, got, tt.refusal.Status, want)
				}
				body := tt.body
				if method == "HEAD" {
					body = ""
				}
				if got := w.Body.String(); got != body {
					t.Errorf("got  %q\nwant %q", got, body)
				}
				if tt.kind == problem && !json.Valid([]byte(tt.body)) {
					t.Error("the body is not JSON")
				}
				if len(tt.body) >= 200 {
					t.Errorf("a body of %d bytes, want less than 200", len(tt.body))
				}
			})
		}
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestRefuseReadsNoBody: a refused upload is not taken in, and the connection is kept.
func TestRefuseReadsNoBody(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = unreadable{t}
		if err := Refuse(w, r, &Refusal{Status: 429, Wait: time.Second}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	for range 2 {
		res, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("upload"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 429 || res.Close || len(body) != int(res.ContentLength) {
			t.Errorf("got %v, close %v, %d of %d bytes, %v", res.Status, res.Close, len(body), res.ContentLength, err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("read")
}

func (unreadable) Close() error { return nil }

// TestRefuseKeepsAnswersApart: answers are built in buffers and field values that are
// used again; Caddy's header directive changes values in place.
func TestRefuseKeepsAnswersApart(t *testing.T) {
	refuse := func(f *Refusal) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if err := Refuse(w, get(""), f); err != nil {
			t.Fatal(err)
		}
		return w
	}
	first := refuse(&Refusal{Status: 429, Message: "first"})
	for _, values := range first.Header() {
		values[0] = "changed"
	}
	first.Header().Add("Cache-Control", "added")
	if got := first.Header().Get("Content-Type"); got != "changed" {
		t.Errorf("adding to a field changed its neighbour to %q", got)
	}
	second := refuse(&Refusal{Status: 429, Message: "second"})
	if second.Header().Get("Cache-Control") != "no-store" || second.Body.String() != "second" || first.Body.String() != "first" {
		t.Errorf("got %v %q", second.Header(), second.Body)
	}
}

// blank is a response writer that keeps nothing.
type blank struct{ h http.Header }

func (b blank) Header() http.Header         { return b.h }
func (b blank) Write(p []byte) (int, error) { return len(p), nil }
func (b blank) WriteHeader(int)             {}

func TestRefuseAllocations(t *testing.T) {
	w, f := blank{http.Header{}}, &Refusal{Status: 429, Wait: 150 * time.Second, Decision: refusedBy("api")}
	for accept, most := range map[string]float64{"": 3, "application/json": 5} {
		r := get(accept)
		if n := testing.AllocsPerRun(100, func() { clear(w.h); _ = Refuse(w, r, f) }); n > most {
			t.Errorf("Accept %q: %v allocations, want at most %v", accept, n, most)
		}
	}
}

func BenchmarkRefuse(b *testing.B) {
	f := &Refusal{Status: 429, Wait: 150 * time.Second, Decision: refusedBy("api")}
	for name, accept := range map[string]string{"text": "", "json": "application/json"} {
		b.Run(name, func(b *testing.B) {
			w, r := blank{http.Header{}}, get(accept)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				_ = Refuse(w, r, f)
			}
		})
	}
}
