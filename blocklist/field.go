package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
)

// A Request is what rules look at. Empty texts other than Query are absent values.
type Request struct {
	// Source the request comes from.
	Source Source
	// Host without port, brackets and trailing dot, in any case.
	Host string
	// URL is path and query as they were sent.
	URL string
	// Path as files are looked up by: decoded and cleaned. A slash at its end is kept
	// here, and rules see it with and without.
	Path string
	// Query as it was sent, without the question mark.
	Query string
	// Method of the request.
	Method string
	// Client is the client's address in any form; invalid if there is none.
	Client netip.Addr
	// Header by canonical name, see net/textproto.
	Header map[string][]string
	// MessageType of a WebSocket's message, User on whose behalf it came or a job runs, and
	// Handler that runs the job, with its Args. Plain requests have none of them.
	MessageType, User, Handler string
	Args                       []string
}

// kind tells how a field is read and matched.
type kind uint8

const (
	address kind = iota // Client, against ranges
	text                // one of the request's texts, against patterns
	args                // the arguments of a job, against patterns
	header              // the values of a header, against patterns
	agent               // the user agent, for the names in it
)

// A look is one thing that a rule may look at: a row of the table.
type look struct {
	name string
	kind kind
	// header is the name of the header; empty when the rule gives it.
	header string
	// fold makes upper and lower case of ASCII letters equal.
	fold bool
	// slash makes a value that ends in a slash count without it as well: /a.php/ may be
	// the file /a.php.
	slash bool
	// empty allows the empty pattern: elsewhere it could never match.
	empty bool
	// check, if any, refuses what can never match and brings the pattern to the
	// form of the value.
	check func(pattern string) (string, error)
}

// looks is the table of all that a rule may look at. Texts are read in valueOf.
var looks = []look{
	{name: "host", kind: text, fold: true, check: checkHost},
	{name: "url", kind: text, check: checkSlash},
	{name: "path", kind: text, check: checkPath, slash: true},
	{name: "query", kind: text, empty: true, check: checkQuery},
	{name: "method", kind: text, fold: true},
	{name: "client_ip", kind: address},
	userAgent,
	{name: "agent", kind: agent},
	{name: "header", kind: header, empty: true},
	{name: "message_type", kind: text},
	{name: "user", kind: text},
	{name: "handler", kind: text},
	{name: "args", kind: args, empty: true},
}

// userAgent is the row of a field whose values are also where agents are looked for.
var userAgent = look{name: "user_agent", kind: header, header: "User-Agent", fold: true, empty: true}

// valueOf returns the text of a field and whether the request has it. It is a switch,
// and not a function in each row, so that requests can stay on the stack.
func (r *Request) valueOf(name string) (string, bool) {
	switch name {
	case "host":
		return r.Host, r.Host != ""
	case "url":
		return r.URL, r.URL != ""
	case "path":
		return r.Path, r.Path != ""
	case "query":
		// What is no plain request has a query only if it says so.
		return r.Query, r.Query != "" || r.Source != Job
	case "method":
		return r.Method, r.Method != ""
	case "message_type":
		return r.MessageType, r.MessageType != ""
	case "user":
		return r.User, r.User != ""
	case "handler":
		return r.Handler, r.Handler != ""
	}
	panic("blocklist: field " + name + " is not a text")
}

// lookFor finds the row of a rule's field and completes it with the header's name.
func lookFor(f *Field) (look, error) {
	var names []string
	for _, l := range looks {
		names = append(names, l.name)
		if l.name != f.Name {
			continue
		}
		if l.kind == header && l.header == "" {
			name, err := headerName(f.Header)
			l.header = name
			return l, err
		}
		if f.Header != "" {
			return l, fmt.Errorf("%s: has no header name, got %q", f.Name, f.Header)
		}
		return l, nil
	}
	return look{}, fmt.Errorf("no field %q: a rule may look at %s", f.Name, strings.Join(names, ", "))
}

// label is how errors name the field.
func (f *Field) label() string {
	if f.Header == "" {
		return f.Name
	}
	return fmt.Sprintf("%s %q", f.Name, f.Header)
}

// headerName checks the name of a header and brings it to canonical form.
func headerName(name string) (string, error) {
	if name == "" {
		return "", errors.New("header: must have a name")
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return "", fmt.Errorf("header %q: is not the name of a header", name)
		}
	}
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Host":
		return "", errors.New(`header "Host": is not kept among the headers, use the field host`)
	}
	return name, nil
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func checkHost(pattern string) (string, error) {
	pattern = strings.TrimSuffix(pattern, ".")
	if strings.HasPrefix(pattern, "[") && strings.HasSuffix(pattern, "]") {
		return pattern[1 : len(pattern)-1], nil
	}
	if _, port, found := strings.Cut(pattern, ":"); found && port != "" && strings.Trim(port, "0123456789") == "" {
		return "", errors.New("is matched without its port")
	}
	for i := range len(pattern) {
		if pattern[i] >= 0x80 {
			return "", errors.New("must be ASCII: a name in other letters is sent as xn--…")
		}
	}
	return pattern, nil
}

func checkSlash(pattern string) (string, error) {
	if pattern[0] != '/' && pattern[0] != '*' {
		return "", errors.New("must begin with / or *")
	}
	return pattern, nil
}

func checkPath(pattern string) (string, error) {
	if strings.Contains(pattern, "//") || strings.Contains(pattern, "/./") || strings.Contains(pattern, "/../") ||
		strings.HasSuffix(pattern, "/.") || strings.HasSuffix(pattern, "/..") {
		return "", errors.New("can never match: paths are cleaned of //, /./ and /../")
	}
	return checkSlash(pattern)
}

func checkQuery(pattern string) (string, error) {
	if strings.HasPrefix(pattern, "?") {
		return "", errors.New("is matched without the question mark")
	}
	return pattern, nil
}
