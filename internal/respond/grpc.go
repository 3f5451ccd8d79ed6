package respond

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Code is a status of gRPC, which takes the place of the HTTP status for its calls.
type Code int

// The codes of refusals.
const (
	ResourceExhausted Code = 8 // a limit refused
	PermissionDenied  Code = 7 // a rule refused
)

// grpcKinds are the media types of gRPC calls. Those of gRPC-Web differ in how messages
// are framed, and a refusal has no message: PROTOCOL-WEB.md has no other form than gRPC's for
// answers that consist of trailers only.
var grpcKinds = [...]string{"application/grpc-web-text", "application/grpc-web", "application/grpc"}

// grpcKind returns the media type of the answer to a gRPC call; "" for another request.
func grpcKind(r *http.Request) string {
	value := r.Header["Content-Type"]
	if r.Method != http.MethodPost || len(value) == 0 {
		return ""
	}
	for _, kind := range grpcKinds {
		// The encoding of messages may follow after a plus sign, or parameters.
		rest, ok := cutPrefixFold(value[0], kind)
		if ok && (rest == "" || strings.IndexByte("+; \t", rest[0]) >= 0) {
			return kind
		}
	}
	return ""
}

// refuseGRPC answers a gRPC call with trailers only, which for HTTP is a head without a
// body and always of status 200.
func refuseGRPC(w http.ResponseWriter, kind string, f *Refusal, message string, after int64) {
	h := w.Header()
	delete(h, "Content-Length")
	code := f.Code
	if code == 0 {
		code = ResourceExhausted
	}
	h["Cache-Control"] = []string{noStore}
	h["Content-Type"] = []string{kind}
	h["Grpc-Status"] = []string{strconv.Itoa(int(code))}
	if message == "" {
		message = "Too many requests."
		if code == PermissionDenied {
			message = "Permission denied."
		}
		message = string(appendHint([]byte(message), " ", f, after, ""))
	}
	h["Grpc-Message"] = []string{string(appendPercent(nil, shorten(message)))}
	w.WriteHeader(http.StatusOK)
}

// maxGRPCMessage is the longest message of a gRPC status, in bytes before encoding: it is
// a header field, of which clients take only so much.
const maxGRPCMessage = 256

// shorten cuts a text between two characters so that it is not too long.
func shorten(text string) string {
	if len(text) <= maxGRPCMessage {
		return text
	}
	end := maxGRPCMessage
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// appendPercent appends a text as gRPC's Percent-Encoded (PROTOCOL-HTTP2.md): all but
// printable ASCII, and the percent sign itself, as %XX.
func appendPercent(b []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		if c := text[i]; ' ' <= c && c <= '~' && c != '%' {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return b
}
