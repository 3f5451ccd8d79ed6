package copies

import (
	"net/http"
	"strings"
)

// passing are the fields of an answer that a copy does not keep, by what they belong to.
var passing = map[string]bool{
	// One connection (RFC 9110, section 7.6.1; RFC 9111, section 3.1).
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true,
	"Proxy-Authentication-Info": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Alt-Svc": true, "Server": true,
	// One client.
	"Set-Cookie": true, "Set-Cookie2": true, "Authentication-Info": true, "Clear-Site-Data": true, "Set-Login": true,
	// One moment, which a copy tells anew or not at all.
	"Date": true, "Age": true, "Content-Length": true, "Retry-After": true, "Warning": true,
	"Ratelimit": true, "Ratelimit-Policy": true,
	// One request: how caches answered it, how long it took, and what it is called.
	"Cache-Status": true, "X-Cache": true, "X-Cache-Hits": true, "X-Cache-Status": true, "Cf-Cache-Status": true,
	"X-Served-By": true, "X-Timer": true, "X-Varnish": true,
	"Server-Timing": true, "X-Runtime": true, "X-Response-Time": true, "X-Envoy-Upstream-Service-Time": true,
	"Request-Id": true, "X-Request-Id": true, "Correlation-Id": true, "X-Correlation-Id": true, "Request-Context": true,
	"Traceparent": true, "Tracestate": true, "Traceresponse": true, "Baggage": true, "B3": true, "Uber-Trace-Id": true,
	"Trace-Id": true, "X-Trace-Id": true, "X-Cloud-Trace-Context": true, "X-Amzn-Trace-Id": true, "X-Amzn-Requestid": true,
	"X-Amz-Request-Id": true, "X-Amz-Id-2": true, "X-Amz-Cf-Id": true, "Cf-Ray": true, "X-Vercel-Id": true,
	"Fly-Request-Id": true, "X-Github-Request-Id": true,
}

// passingKinds are how the names of whole families of such fields begin.
var passingKinds = [...]string{"Ratelimit-", "X-Ratelimit-", "X-B3-"}

// lasts reports whether a copy keeps a field, by its canonical name.
func lasts(name string) bool {
	if passing[name] {
		return false
	}
	for _, kind := range passingKinds {
		if strings.HasPrefix(name, kind) {
			return false
		}
	}
	return true
}

// lasting returns the fields of an answer that a copy keeps.
func lasting(h http.Header) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if len(values) > 0 && lasts(name) {
			kept[name] = append([]string(nil), values...)
		}
	}
	for name := range words(h["Connection"]) {
		delete(kept, http.CanonicalHeaderKey(name))
	}
	return kept
}
