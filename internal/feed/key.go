package feed

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// maxName is the longest name of a feed in bytes. Longer ones end in a hash.
const maxName = 256

// A Key names feeds: one feed has one name, however its address is written. The zero value
// goes by host and path alone.
type Key struct {
	parameters []string          // of the query that tell feeds apart, in order
	aliases    map[string]string // path to the path that counts
}

// NewKey returns the key by which these parameters of the query tell feeds apart, and the
// paths of each list of aliases are one feed.
func NewKey(parameters []string, aliases [][]string) (*Key, error) {
	k := &Key{parameters: slices.Compact(slices.Sorted(slices.Values(parameters))), aliases: make(map[string]string)}
	for i, list := range aliases {
		if len(list) < 2 {
			return nil, fmt.Errorf("alias[%d]: must have two paths or more, has %d", i, len(list))
		}
		first := clean(list[0])
		for _, p := range list {
			if !strings.HasPrefix(p, "/") {
				return nil, fmt.Errorf("alias[%d]: must begin with a slash, got %q", i, p)
			}
			p = clean(p)
			if other, known := k.aliases[p]; known && other != first {
				return nil, fmt.Errorf("alias[%d]: %q stands for another feed already", i, p)
			}
			k.aliases[p] = first
		}
	}
	return k, nil
}

// AppendTo appends the name of the feed at a decoded path of a host: the host in lower case
// without port and leading "www.", the path without what is not needed to find it, and the
// declared parameters of the query. Scheme and all other parameters do not matter.
func (k *Key) AppendTo(dst []byte, host, urlPath, query string) []byte {
	start := len(dst)
	dst = appendHost(dst, host)
	urlPath = clean(urlPath)
	if first, known := k.aliases[urlPath]; known {
		urlPath = first
	}
	dst = append(dst, urlPath...)
	if len(k.parameters) > 0 && query != "" {
		dst = k.appendQuery(dst, query)
	}
	if len(dst)-start <= maxName {
		return dst
	}
	sum := sha256.Sum256(dst[start:])
	dst = dst[:start+maxName-base64.RawURLEncoding.EncodedLen(len(sum))]
	return base64.RawURLEncoding.AppendEncode(dst, sum[:])
}

func (k *Key) appendQuery(dst []byte, query string) []byte {
	values, _ := url.ParseQuery(query) // what cannot be read is no declared parameter
	mark := byte('?')
	for _, name := range k.parameters {
		for _, value := range values[name] {
			dst = append(dst, mark)
			dst = append(append(append(dst, url.QueryEscape(name)...), '='), url.QueryEscape(value)...)
			mark = '&'
		}
	}
	return dst
}

// Extra reports whether a query has parameters that were not declared.
func (k *Key) Extra(query string) bool {
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		if one == "" {
			continue
		}
		name, _, _ := strings.Cut(one, "=")
		if strings.ContainsAny(name, "%+") {
			name, _ = url.QueryUnescape(name) // what cannot be read is not declared
		}
		if !slices.Contains(k.parameters, name) {
			return true
		}
	}
	return false
}

// appendHost appends a host as it counts.
func appendHost(dst []byte, host string) []byte {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > 4 && strings.EqualFold(host[:4], "www.") {
		host = host[4:]
	}
	for i := range len(host) {
		c := host[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// clean is the path by which a file server would find the feed, without a slash at its end.
// One that is clean already is not copied.
func clean(p string) string {
	if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") || strings.Contains(p, "/.") {
		p = path.Clean("/" + p)
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/")
	}
	return p
}
