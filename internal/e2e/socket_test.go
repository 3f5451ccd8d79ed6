package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// upstream <port> runs an app to proxy to until the script ends. It echoes to those who
// ask for a WebSocket, and says "hello" to others.
func (s *story) upstream(ts *testscript.TestScript, neg bool, args []string) error {
	if neg || len(args) != 1 {
		return errors.New("usage: upstream <port>")
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			new(house).socket(w, r.Header.Get("Upgrade"))
			return
		}
		_, _ = fmt.Fprintln(w, "hello")
	})}
	go func() { _ = server.Serve(l) }()
	ts.Defer(func() { server.Close() })
	return nil
}

// sockets <n> <url> asks for so many WebSockets, one after the other, keeps those open that
// it gets, and writes to stdout how many answers had which status ("101=3 429=1").
//
// sockets close closes them.
func (s *story) openSockets(ts *testscript.TestScript, neg bool, args []string) error {
	if !neg && len(args) == 1 && args[0] == "close" {
		for _, conn := range s.sockets {
			conn.Close()
		}
		s.sockets = nil
		return nil
	}
	if neg || len(args) != 2 {
		return errors.New("usage: sockets <n> <url> | sockets close")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	target, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	var shots []shot
	for range n {
		conn, err := net.Dial("tcp", target.Host)
		if err != nil {
			return err
		}
		ts.Defer(func() { conn.Close() })
		status, err := askSocket(conn, target.RequestURI())
		if err != nil {
			return err
		}
		shots = append(shots, shot{status: status})
		s.sockets = append(s.sockets, conn)
	}
	_, err = fmt.Fprintln(ts.Stdout(), tally(shots))
	return err
}

// askSocket asks for a WebSocket over a connection and returns the answer's status.
func askSocket(conn net.Conn, path string) (int, error) {
	_, err := fmt.Fprint(conn, strings.ReplaceAll(`GET `+path+` HTTP/1.1
Host: localhost
Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==

`, "\n", "\r\n"))
	if err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}
