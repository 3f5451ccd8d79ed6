//go:build !race

// quic-go's client (v0.63) has a race of its own between the server's transport parameters
// and streams that are opened early, which the race detector sees now and then. So
// `make test` runs this story without the detector.

package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// TestEarlyData sends requests before TLS is complete, when they could as well be a copy
// that somebody else sends. Caddy's matchers of addresses do not look at those: their answer, 425,
// reaches the client wherever such a matcher stands, and nothing is charged or blocked.
func TestEarlyData(t *testing.T) {
	t.Parallel()
	_, encrypted := serveEverywhere(t, "", `
	handle /match {
		rate_limit {
			zone match {
				match {
					remote_ip 127.0.0.0/8 ::1
				}
				key {client_ip}
				limit 1/1h
			}
		}
		respond "through"
	}
	handle /exempt {
		rate_limit {
			zone exempt {
				key {client_ip}
				limit 1/1h
				exempt {
					remote_ip 10.0.0.0/8
				}
			}
		}
		respond "through"
	}
	handle /allow {
		block {
			rule all_of_it {
				path /allow
			}
			allow {
				remote_ip 10.0.0.0/8
			}
		}
		respond "through"
	}
	handle /selected {
		@local remote_ip 127.0.0.0/8 ::1
		block @local
		respond "through"
	}
	handle /plain {
		rate_limit {
			zone plain {
				key {client_ip}
				limit 1/1h
			}
		}
		respond "through"
	}
`)
	address := strings.TrimPrefix(encrypted, "https://")
	for path, want := range map[string]struct{ early, later int }{
		"/match":    {425, 200},
		"/exempt":   {425, 200},
		"/allow":    {425, 403},
		"/selected": {425, 403},
		// What asks for no address is decided at once, and may pass.
		"/plain": {200, 429},
	} {
		t.Run(path[1:], func(t *testing.T) {
			session := tls.NewLRUClientSessionCache(1)
			if _, status := fetch(t, session, address, "GET", "/"); status != 200 {
				t.Fatalf("the first connection: status %d", status)
			}
			early, status := fetch(t, session, delayed(t, address), http3.MethodGet0RTT, path)
			if !early {
				t.Fatal("no early data was taken")
			}
			if status != want.early {
				t.Errorf("early: status %d, want %d", status, want.early)
			}
			if _, status := fetch(t, session, address, "GET", path); status != want.later {
				t.Errorf("later: status %d, want %d", status, want.later)
			}
		})
	}
}

// fetch sends one request on a connection of its own, and reports whether it was early data,
// and the answer's status.
func fetch(t *testing.T, session tls.ClientSessionCache, address, method, path string) (early bool, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := quic.DialAddrEarly(ctx, address, &tls.Config{
		InsecureSkipVerify: true, ServerName: "localhost", ClientSessionCache: session, NextProtos: []string{http3.NextProtoH3},
	}, &quic.Config{MaxIdleTimeout: 5 * time.Second}) // its end may be lost on the way, and the server wait for it
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	r, err := http.NewRequestWithContext(ctx, method, "https://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := new(http3.Transport).NewClientConn(conn).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return conn.ConnectionState().Used0RTT, res.StatusCode
}

// delayed carries datagrams to an address, and back after a while: meanwhile the client knows
// nothing of the server but what it remembers, and TLS cannot be complete. It returns its own
// address.
func delayed(t *testing.T, address string) string {
	t.Helper()
	const delay = 300 * time.Millisecond
	front, err := net.ListenPacket("udp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		front.Close()
		back.Close()
	})
	var client atomic.Pointer[net.Addr]
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := front.ReadFrom(b)
			if err != nil {
				return
			}
			client.Store(&from)
			_, _ = back.Write(b[:n])
		}
	}()
	go func() {
		for {
			b := make([]byte, 2048)
			n, err := back.Read(b)
			if err != nil {
				return
			}
			time.AfterFunc(delay, func() { _, _ = front.WriteTo(b[:n], *client.Load()) })
		}
	}()
	return front.LocalAddr().String()
}
