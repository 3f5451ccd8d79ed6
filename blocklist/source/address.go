package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The shortest time between two downloads, by whose list it is.
var (
	// floors are those of hosts that say so, and all below them: both stop answering who asks
	// more often.
	floors = map[string]time.Duration{
		"spamhaus.org":  time.Hour,     // once an hour at most, once a day is enough
		"abuseipdb.com": 5 * time.Hour, // five calls a day without a plan
	}
	publicFloor = 5 * time.Minute
	localFloor  = time.Second
)

// floor is the shortest time between two downloads from a host.
func floor(host string) time.Duration {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for name, d := range floors {
		if host == name || strings.HasSuffix(host, "."+name) {
			return d
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr = addr.Unmap(); addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() {
			return localFloor
		}
		return publicFloor
	}
	if !strings.Contains(host, ".") {
		return localFloor // localhost, or a neighbour
	}
	return publicFloor
}

// checkAddress reads the address of a list.
func checkAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("must be an address that begins with https:// or http://") // the error would quote all of it
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("must be an address that begins with https:// or http://")
	case u.Fragment != "":
		return nil, errors.New("must have no fragment")
	case strings.HasSuffix(u.Path, "/decisions/stream") && u.Query().Get("startup") != "true":
		return nil, errors.New("must have startup=true in its query: without, the answer is only what has changed")
	}
	return u, nil
}

// checkHeader wants header fields that can be sent.
func checkHeader(h http.Header) error {
	for name, values := range h {
		bad := name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		})
		if bad {
			return fmt.Errorf("header %q: is no name of a header", excerpt(name))
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				return fmt.Errorf("header %q: must have no control characters in its value", name)
			}
		}
	}
	return nil
}

// public is an address as it may be shown: without user, password and query.
func public(u *url.URL) string {
	shown := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		shown += "?..."
	}
	return shown
}

// scrubber returns what takes the secrets of a download out of a text: user and password,
// the query with its values, and the values of header fields.
func scrubber(u *url.URL, h http.Header) func(string) string {
	var secrets []string
	add := func(all ...string) {
		for _, s := range all {
			if len(s) > 2 && s != "true" && s != "false" {
				secrets = append(secrets, s, url.QueryEscape(s), url.PathEscape(s))
			}
		}
	}
	if u.User != nil {
		password, _ := u.User.Password()
		add(u.User.String(), u.User.Username(), password)
	}
	add(u.RawQuery)
	for _, values := range u.Query() {
		add(values...)
	}
	for _, values := range h {
		add(values...)
		for _, value := range values {
			add(strings.Fields(value)...) // as in Authorization: Bearer s3cret
		}
	}
	// The longest first: one may be part of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range secrets {
		pairs = append(pairs, s, "...")
	}
	if len(pairs) == 0 {
		return func(text string) string { return text }
	}
	return strings.NewReplacer(pairs...).Replace
}
