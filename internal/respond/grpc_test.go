package respond

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

func TestGRPCKind(t *testing.T) {
	for kind, want := range map[string]string{
		"application/grpc":                     "application/grpc",
		"application/grpc+proto":               "application/grpc",
		"APPLICATION/GRPC; charset=utf-8":      "application/grpc",
		"application/grpc-web":                 "application/grpc-web",
		"application/grpc-web+proto":           "application/grpc-web",
		"application/grpc-web-text":            "application/grpc-web-text",
		"application/grpc-web-text+thrift;a=b": "application/grpc-web-text",
		"application/grpc-webs":                "",
		"application/grpc-web-texts":           "",
		"application/grpcx":                    "",
		"application/json":                     "",
		"":                                     "",
	} {
		r := httptest.NewRequest("POST", "/weir.Feed/Read", nil)
		r.Header.Set("Content-Type", kind)
		if got := grpcKind(r); got != want {
			t.Errorf("%q: got %q, want %q", kind, got, want)
		}
		// A call of gRPC is always a POST, so that nobody turns the answer to another
		// request into a success by its content type.
		r.Method = "GET"
		if got := grpcKind(r); got != "" {
			t.Errorf("GET %q: got %q", kind, got)
		}
	}
}

func TestRefuseGRPC(t *testing.T) {
	tests := []struct {
		name, kind            string
		refusal               Refusal
		code, message, answer string
	}{
		{
			"a limit", "application/grpc+proto",
			Refusal{Status: 503, Wait: 11500 * time.Millisecond, Decision: refusedBy("api")},
			"8", "Too many requests. Try again in 12 s.", "application/grpc",
		},
		{
			"a cost above the limit", "application/grpc",
			Refusal{Status: 429, Wait: limiter.Never, Decision: refusedBy("api")},
			"8", "Too many requests. Its cost is above the limit.", "application/grpc",
		},
		{"a rule", "application/grpc-web-text", Refusal{Status: 403, Code: PermissionDenied}, "7", "Permission denied.", "application/grpc-web-text"},
		{
			"a message", "application/grpc-web+proto",
			Refusal{Status: 404, Code: PermissionDenied, Message: "100 % nö\n{http.rate_limit.exceeded.name}"},
			"7", "100 %25 n%C3%B6%0Aa \"b\"", "application/grpc-web",
		},
		{
			"a long message", "application/grpc",
			Refusal{Status: 429, Message: strings.Repeat("aä", 100)},
			"8", strings.Repeat("a%C3%A4", 85) + "a", "application/grpc",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, r := httptest.NewRecorder(), get("application/json")
			r.Method = "POST"
			r.Header.Set("Content-Type", tt.kind)
			w.Header().Set("Content-Length", "7")
			w.Header().Set("Etag", "earlier")
			w.Header().Set("Ratelimit", "earlier")
			if err := Refuse(w, r, &tt.refusal); err != nil {
				t.Fatal(err)
			}
			want := http.Header{
				"Cache-Control": {"no-store"},
				"Content-Type":  {tt.answer},
				"Grpc-Status":   {tt.code},
				"Grpc-Message":  {tt.message},
				"Ratelimit":     {"earlier"},
			}
			if tt.refusal.Wait > 0 && tt.refusal.Wait != limiter.Never {
				want["Retry-After"] = []string{"12"}
			}
			if got := w.Header(); w.Code != 200 || w.Body.Len() > 0 || !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("got  %d %v %q\nwant 200 %v", w.Code, got, w.Body, want)
			}
		})
	}
}

// TestGRPCHasNoErrorPage: the site's error routes are for HTTP.
func TestGRPCHasNoErrorPage(t *testing.T) {
	server := serve(t, "http://a.test {\n route {\n refuse 429\n }\n handle_errors {\n respond \"page\"\n }\n }")
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "http://a.test/", nil)
	r.Header.Set("Content-Type", "application/grpc")
	server.ServeHTTP(w, r)
	if w.Code != 200 || w.Header().Get("Grpc-Status") != "8" || w.Body.Len() > 0 {
		t.Errorf("got %d %v %q", w.Code, w.Header(), w.Body)
	}
}
