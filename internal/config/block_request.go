package config

import (
	"net/http"
	"net/netip"
	"path"
	"path/filepath"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// requestOf returns what rules see of a request. It allocates only for a path that has to
// be cleaned.
func requestOf(r *http.Request, client netip.Addr) blocklist.Request {
	request := blocklist.Request{
		Source: blocklist.HTTP,
		Host:   hostName(r.Host),
		URL:    sentURL(r),
		Path:   filePath(r.URL.Path),
		Query:  r.URL.RawQuery,
		Method: r.Method,
		Client: client,
		Header: r.Header,
	}
	if upgradesToWebSocket(r) {
		request.Source = blocklist.WebSocket
	}
	return request
}

// hostName returns a Host header's name without port, brackets and the dot of the root.
func hostName(host string) string {
	if rest, bracketed := strings.CutPrefix(host, "["); bracketed {
		if name, _, closed := strings.Cut(rest, "]"); closed {
			return name
		}
	}
	// An IPv6 address without brackets has several colons, and no port.
	if name, port, found := strings.Cut(host, ":"); found && !strings.Contains(port, ":") {
		host = name
	}
	return strings.TrimSuffix(host, ".")
}

// sentURL returns path and query as they stand in the request line. A request to a
// proxy has scheme and host before them, which are not part.
func sentURL(r *http.Request) string {
	url := r.RequestURI
	if url == "" {
		return r.URL.RequestURI()
	}
	if url[0] == '/' || url[0] == '*' {
		return url
	}
	if _, rest, found := strings.Cut(url, "://"); found {
		if at := strings.IndexAny(rest, "/?"); at >= 0 && rest[at] == '/' {
			return rest[at:]
		}
	}
	return r.URL.RequestURI()
}

// filePath cleans a decoded path as Caddy's file server does: what it opens for
// the request is what rules see. A slash at the end is kept.
func filePath(p string) string {
	p = filepath.ToSlash(p) // on Windows a backslash opens folders as well
	if isClean(p) {
		return p
	}
	cleaned := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && cleaned != "/" {
		cleaned += "/"
	}
	return cleaned
}

// isClean reports whether cleaning would leave the path as it is.
func isClean(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := 1; i < len(p); i++ {
		if p[i-1] != '/' {
			continue
		}
		if p[i] == '/' {
			return false
		}
		// A name of dots only, or one that begins with a dot: let Clean tell.
		if p[i] == '.' && (i+1 == len(p) || p[i+1] == '/' || p[i+1] == '.') {
			return false
		}
	}
	return true
}

// upgradesToWebSocket reports whether the request asks for a WebSocket, in HTTP/1.1
// (RFC 6455) or later (RFC 8441).
func upgradesToWebSocket(r *http.Request) bool {
	if r.Method == http.MethodConnect {
		protocol := r.Header[":protocol"]
		return len(protocol) > 0 && protocol[0] == "websocket"
	}
	for _, value := range r.Header["Upgrade"] {
		if strings.EqualFold(value, "websocket") {
			return true
		}
	}
	return false
}
