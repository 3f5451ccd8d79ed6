package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Ask describes what is about to happen: a job that a worker is about to run, a message of a
// WebSocket, or a request. What is not said is absent, and rules that look at it do not
// match.
type Ask struct {
	// Source is job, websocket or http. Default: job, or http if there is a URL.
	Source string `json:"source,omitempty"`
	// MessageType of a WebSocket's message.
	MessageType string `json:"message_type,omitempty"`
	// User on whose behalf it came, or a job runs.
	User string `json:"user,omitempty"`
	// Handler that runs the job.
	Handler string `json:"handler,omitempty"`
	// Args of the job. In JSON they may be any values; what is no text counts as its JSON.
	Args Args `json:"args,omitempty"`
	// ClientIP is the client's address.
	ClientIP string `json:"client_ip,omitempty"`
	// URL is path and query as they were sent, or a whole http or https URL. Host, Path
	// and Query are read from it unless they are given.
	URL string `json:"url,omitempty"`
	// Host, in any case.
	Host string `json:"host,omitempty"`
	// Path, decoded.
	Path string `json:"path,omitempty"`
	// Query, without the question mark.
	Query string `json:"query,omitempty"`
	// Method of the request.
	Method string `json:"method,omitempty"`
	// UserAgent is short for the header.
	UserAgent string `json:"user_agent,omitempty"`
	// Header by name, in any case.
	Header Header `json:"header,omitempty"`
}

// Header has the fields of a request. In JSON a value is a string, or an array of strings.
type Header map[string][]string

// UnmarshalJSON implements [json.Unmarshaler].
func (h *Header) UnmarshalJSON(data []byte) error {
	var given map[string]json.RawMessage
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(data, &given); errors.As(err, &wrong) {
		return fmt.Errorf("header: must be an object, got %s", wrong.Value)
	} else if err != nil {
		return err
	}
	*h = make(Header, len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		var one string
		var several []string
		switch {
		case json.Unmarshal(given[name], &one) == nil:
			several = []string{one}
		case json.Unmarshal(given[name], &several) != nil:
			return fmt.Errorf("header: %s: must be a string, or an array of strings", name)
		}
		(*h)[name] = several
	}
	return nil
}

// Args are the arguments of a job.
type Args []string

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Args) UnmarshalJSON(data []byte) error {
	var values []json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		values = []json.RawMessage{data}
	}
	for _, v := range values {
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			var compact bytes.Buffer
			if err := json.Compact(&compact, v); err != nil {
				return err
			}
			text = compact.String()
		}
		*a = append(*a, text)
	}
	return nil
}

// Request returns what rules see of the ask. The error joins all that is wrong with it.
func (a *Ask) Request() (blocklist.Request, error) {
	r := blocklist.Request{
		Source: blocklist.Job, MessageType: a.MessageType, User: a.User, Handler: a.Handler, Args: a.Args,
		Method: a.Method, Query: a.Query, URL: a.URL, Header: make(map[string][]string, len(a.Header)+1),
	}
	var problems []error
	host, path := a.Host, a.Path
	if a.URL != "" {
		r.Source = blocklist.HTTP
		u, err := parseTarget(a.URL)
		if err != nil {
			problems = append(problems, fmt.Errorf("url: %w", err))
			u = new(url.URL)
		}
		r.URL = u.RequestURI()
		host, path = cmp.Or(host, u.Host), cmp.Or(path, u.Path)
		r.Query = cmp.Or(r.Query, u.RawQuery)
	}
	r.Host = hostName(host)
	if path != "" {
		r.Path = filePath(path)
	}
	if a.Source != "" {
		source, err := blocklist.ParseSource(a.Source)
		if err != nil || source == blocklist.AnySource {
			problems = append(problems, fmt.Errorf("source: must be http, websocket or job, got %q", a.Source))
		}
		r.Source = source
	}
	if a.ClientIP != "" {
		addr, err := netip.ParseAddr(a.ClientIP)
		if err != nil {
			problems = append(problems, fmt.Errorf("client_ip: must be an address, got %q", a.ClientIP))
		}
		r.Client = blocklist.Plain(addr)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		key := http.CanonicalHeaderKey(name)
		r.Header[key] = append(r.Header[key], a.Header[name]...)
	}
	if a.UserAgent != "" {
		r.Header["User-Agent"] = []string{a.UserAgent}
	}
	return r, errors.Join(problems...)
}

// parseTarget reads what stands in a request line, or a whole URL.
func parseTarget(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is no URL")
	case u.Host == "" && strings.HasPrefix(text, "/"):
		return u, nil
	case u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"):
		u.Fragment = ""
		if u.Path == "" {
			u.Path = "/"
		}
		return u, nil
	}
	return nil, errors.New("must begin with /, http:// or https://")
}

// fields are the words of an ask that a query or a form may give, in their order.
var fields = []struct {
	word string
	set  func(a *Ask, values []string) error
}{
	{"source", one(func(a *Ask) *string { return &a.Source })},
	{"message_type", one(func(a *Ask) *string { return &a.MessageType })},
	{"user", one(func(a *Ask) *string { return &a.User })},
	{"handler", one(func(a *Ask) *string { return &a.Handler })},
	{"args", func(a *Ask, values []string) error { a.Args = values; return nil }},
	{"client_ip", one(func(a *Ask) *string { return &a.ClientIP })},
	{"url", one(func(a *Ask) *string { return &a.URL })},
	{"host", one(func(a *Ask) *string { return &a.Host })},
	{"path", one(func(a *Ask) *string { return &a.Path })},
	{"query", one(func(a *Ask) *string { return &a.Query })},
	{"method", one(func(a *Ask) *string { return &a.Method })},
	{"user_agent", one(func(a *Ask) *string { return &a.UserAgent })},
	{"header", (*Ask).addHeaders},
}

func one(field func(a *Ask) *string) func(a *Ask, values []string) error {
	return func(a *Ask, values []string) error {
		if len(values) != 1 {
			return errors.New("is given twice")
		}
		*field(a) = values[0]
		return nil
	}
}

// addHeaders reads fields as they stand in a request: `Name: value`.
func (a *Ask) addHeaders(values []string) error {
	for _, v := range values {
		name, value, found := strings.Cut(v, ":")
		if !found || name == "" {
			return fmt.Errorf("must be written as Name: value, got %q", v)
		}
		if a.Header == nil {
			a.Header = make(Header)
		}
		a.Header[name] = append(a.Header[name], strings.TrimSpace(value))
	}
	return nil
}

// readValues reads an ask from a query or a form.
func readValues(values url.Values) (Ask, error) {
	var a Ask
	var problems []error
	known := make(map[string]bool, len(fields))
	for _, f := range fields {
		known[f.word] = true
		if given := values[f.word]; given != nil {
			if err := f.set(&a, given); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", f.word, err))
			}
		}
	}
	for _, word := range slices.Sorted(maps.Keys(values)) {
		if !known[word] {
			problems = append(problems, unknownField(word))
		}
	}
	if len(values) == 0 {
		problems = append(problems, errors.New("describes nothing"))
	}
	return a, errors.Join(problems...)
}

// unknownField names the field, and those there are.
func unknownField(word string) error {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = f.word
	}
	return fmt.Errorf("unknown field %q (known here: %s)", word, strings.Join(words, ", "))
}

// readJSON reads one ask, or an array of them.
func readJSON(body []byte) (asks []Ask, several bool, err error) {
	body = bytes.TrimSpace(body)
	if several = bytes.HasPrefix(body, []byte("[")); !several {
		asks = make([]Ask, 1)
		return asks, false, readAsk(body, &asks[0])
	}
	var items []json.RawMessage
	if err := readAsk(body, &items); err != nil {
		return nil, true, err
	}
	asks = make([]Ask, len(items))
	for i, item := range items {
		if err := readAsk(item, &asks[i]); err != nil {
			return nil, true, nth(i, err)
		}
	}
	return asks, true, nil
}

// nth says which of several asks an error is about, from 0 on as JSON counts.
func nth(i int, err error) error { return fmt.Errorf("[%d]: %w", i, err) }

// readAsk reads one JSON value, and says what is wrong with it in words for people.
func readAsk(text []byte, into any) error {
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.DisallowUnknownFields()
	err := decode.Decode(into)
	if err == nil && decode.More() {
		err = errors.New("more than one JSON value: ask several things in an array")
	}
	var wrong *json.UnmarshalTypeError
	var broken *json.SyntaxError
	switch text, unknown := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); {
	case unknown:
		word, _ := strconv.Unquote(text)
		err = unknownField(word)
	case errors.As(err, &wrong) && wrong.Field != "":
		err = fmt.Errorf("%s: must be %s, got %s", wrong.Field, jsonName(wrong.Type), wrong.Value)
	case errors.As(err, &wrong):
		err = fmt.Errorf("must be an object, or an array of objects, got %s", wrong.Value)
	case errors.As(err, &broken), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("is no JSON: %w", err)
	}
	return err
}

// jsonName is what JSON calls a type.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}
