package respond

import "net/http"

// Abort closes the request's connection, or in HTTP/2 and 3 its stream, without an answer,
// as Caddy's own directive abort does. It does not return: the server ends the request
// where it recovers the panic, and logs nothing.
func Abort() { panic(http.ErrAbortHandler) }
