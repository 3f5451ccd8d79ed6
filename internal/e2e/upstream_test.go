package e2e

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// upstreamOf runs a server for a Caddy to proxy to, and returns its address.
func upstreamOf(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
