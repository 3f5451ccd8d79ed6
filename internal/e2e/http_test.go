package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// http [-X <method>] [-H '<name>: <value>']... [-d <body>] [-retry] <status> <url>
//
// sends a request and wants that status; with -retry it asks again until it has it.
// Status line, header lines in order of the alphabet, an empty line and the body go to
// stdout.
func (s *story) http(ts *testscript.TestScript, neg bool, args []string) error {
	method, body, retry, header := "", "", false, http.Header{}
	args, err := flags(args, func(f *flag.FlagSet) {
		f.StringVar(&method, "X", http.MethodGet, "")
		f.StringVar(&body, "d", "", "")
		f.BoolVar(&retry, "retry", false, "")
		f.Func("H", "", func(line string) error { return addHeader(header, line) })
	})
	if err != nil || neg || len(args) != 2 {
		return errors.Join(err, errors.New("usage: http [-X <method>] [-H '<name>: <value>'] [-d <body>] [-retry] <status> <url>"))
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var got int
	var text []byte
	ask := func() bool {
		got, text, err = s.ask(method, args[1], header, body)
		return err == nil && got == want
	}
	if !ask() && retry {
		poll(ask)
	}
	if err != nil {
		return err
	}
	if _, err := ts.Stdout().Write(text); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("status %d, want %d", got, want)
	}
	return nil
}

// addHeader adds a header field as it stands in a request. "Host" counts as one.
func addHeader(h http.Header, line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("header %q has no colon", line)
	}
	h.Add(name, strings.TrimSpace(value))
	return nil
}

// ask sends one request and returns the answer's status and text.
func (s *story) ask(method, url string, header http.Header, body string) (int, []byte, error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header, r.Host = header, header.Get("Host")
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s %s\n", resp.Proto, resp.Status)
	if err := resp.Header.Write(newlines{&text}); err != nil {
		return 0, nil, err
	}
	text.WriteByte('\n')
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return 0, nil, fmt.Errorf("body: %w", err)
	}
	return resp.StatusCode, text.Bytes(), nil
}

// newlines writes lines that end in CR LF as lines that end in LF.
type newlines struct{ w io.Writer }

func (n newlines) Write(p []byte) (int, error) {
	_, err := n.w.Write(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")))
	return len(p), err
}
