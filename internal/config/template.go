package config

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A template is a text with placeholders, parsed once so that the common ones are
// read from a request without garbage.
type template []segment

// A segment is a piece of a template: a literal, or what one placeholder stands for.
type segment struct {
	source source
	// text is the literal; else the header's canonical name, or the
	// placeholder's name without braces.
	text string
	bits prefixBits
}

// A source says where a segment's value comes from.
type source uint8

const (
	fromLiteral source = iota
	fromClientIP
	fromRemoteHost
	fromHost
	fromHeader
	fromPath
	fromOriginalPath
	fromMethod
	fromReplacer // everything else: Caddy's own replacer
)

// parseTemplate parses a text. Addresses in it are cut to bits.
func parseTemplate(text string, bits prefixBits) (template, error) {
	pieces, err := splitText(text)
	if err != nil {
		return nil, err
	}
	t := make(template, len(pieces))
	for i, p := range pieces {
		if !p.placeholder {
			t[i] = segment{text: p.text}
		} else if t[i], err = newSegment(p.text, bits); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// unixPeer is what Go and Caddy call the peer of a unix socket: no address, and so no key.
const unixPeer = "@"

const (
	headerPrefix     = "http.request.header."
	remoteHostPrefix = "http.request.remote.host/"
)

// newSegment finds the shortest way to a placeholder's value.
func newSegment(name string, bits prefixBits) (segment, error) {
	s := segment{source: fromReplacer, text: name, bits: bits}
	switch name {
	case "http.vars." + caddyhttp.ClientIPVarKey:
		s.source = fromClientIP
	case "http.request.remote.host":
		s.source = fromRemoteHost
	case "http.request.host":
		s.source = fromHost
	case "http.request.uri.path":
		s.source = fromPath
	case "http.request.orig_uri.path":
		s.source = fromOriginalPath
	case "http.request.method":
		s.source = fromMethod
	}
	if field, ok := strings.CutPrefix(name, headerPrefix); ok {
		s.source, s.text = fromHeader, textproto.CanonicalMIMEHeaderKey(field)
	}
	if sizes, ok := strings.CutPrefix(name, remoteHostPrefix); ok {
		// Caddy would cut ::ffff:192.0.2.1 to the IPv6 size, and all of IPv4
		// to one key.
		var err error
		s.source = fromRemoteHost
		if s.bits, err = parseBits(sizes); err != nil {
			return s, fmt.Errorf("placeholder {%s}: %w", name, err)
		}
	}
	return s, nil
}

// parseBits reads the end of {http.request.remote.host/24,64}: the sizes of an IPv4
// and an IPv6 network, or one for both.
func parseBits(text string) (prefixBits, error) {
	four, six, two := strings.Cut(text, ",")
	if !two {
		six = four
	}
	v4, err4 := strconv.Atoi(four)
	v6, err6 := strconv.Atoi(six)
	if err4 != nil || err6 != nil || v4 < 0 || v6 < 0 || v6 > 128 || two && v4 > 32 {
		return prefixBits{}, fmt.Errorf("prefix must be <v4>[,<v6>] with at most 32 and 128 bits, got %q", text)
	}
	return prefixBits{min(v4, 32), v6}, nil
}

// literal reports whether the template holds no placeholder.
func (t template) literal() bool {
	for i := range t {
		if t[i].source != fromLiteral {
			return false
		}
	}
	return true
}

// appendTo appends the template's text for a request to dst and reports whether any
// placeholder stood for something. client is ClientIP(r).
func (t template) appendTo(dst []byte, r *http.Request, client netip.Addr) (text []byte, filled bool) {
	for i := range t {
		s := &t[i]
		if s.source == fromLiteral {
			dst = append(dst, s.text...)
			continue
		}
		before := len(dst)
		dst = s.appendValue(dst, r, client)
		filled = filled || len(dst) > before
	}
	return dst, filled
}

// appendValue appends what the placeholder stands for.
func (s *segment) appendValue(dst []byte, r *http.Request, client netip.Addr) []byte {
	switch s.source {
	case fromClientIP:
		if client.IsValid() {
			return s.bits.appendNetwork(dst, client)
		}
		text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		if text == unixPeer {
			return dst
		}
		return appendBounded(dst, text)
	case fromRemoteHost:
		// As in Caddy: before the TLS handshake is complete (early data), the
		// peer's address may be forged.
		if r.TLS != nil && !r.TLS.HandshakeComplete {
			return dst
		}
		if a := parseAddr(r.RemoteAddr); a.IsValid() {
			return s.bits.appendNetwork(dst, a)
		}
		if r.RemoteAddr == unixPeer {
			return dst
		}
		return appendBounded(dst, r.RemoteAddr)
	case fromHost:
		return appendHost(dst, r.Host)
	case fromHeader:
		return appendHeader(dst, r.Header[s.text])
	case fromPath:
		return appendBounded(dst, onePath(r.URL.Path))
	case fromOriginalPath:
		return appendBounded(dst, onePath(originalPath(r)))
	case fromMethod:
		return appendBounded(dst, r.Method)
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return dst
	}
	value, _ := repl.GetString(s.text)
	return appendBounded(dst, value)
}

// appendHeader joins a field's lines by commas, as Caddy does.
func appendHeader(dst []byte, lines []string) []byte {
	if len(lines) == 1 {
		return appendBounded(dst, lines[0])
	}
	return appendBounded(dst, strings.Join(lines, ","))
}

// appendHost appends a Host header's name in lower case, without port, brackets or
// the dot of the root.
func appendHost(dst []byte, hostport string) []byte {
	return appendBounded(dst, strings.ToLower(hostName(hostport)))
}

// originalPath returns the path that the client sent, before any rewrite.
func originalPath(r *http.Request) string { return originalURL(r).Path }

// originalURL returns the URL that the client sent, before any rewrite.
func originalURL(r *http.Request) *url.URL {
	if was, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		return was.URL
	}
	return r.URL
}

// onePath gives the spellings of one path the same text, so that a limit by path is
// not dodged: decoded, dot segments and repeated slashes resolved (as the file server
// does), no slash at the end, lower case (as Caddy's path matcher takes it).
func onePath(p string) string {
	if p == "" {
		return "/"
	}
	return strings.ToLower(path.Clean(filepath.ToSlash(p)))
}
