package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// bytesCodec is a codec of messages that are bytes already.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (bytesCodec) Name() string                       { return "bytes" }

// callSite limits and blocks calls, with settings that are not for them.
const callSite = `
	block {
		rule no_admin {
			path /weir.Admin/*
			action 404
			expires 1h
		}
		rule slow {
			path /weir.Slow/*
			action tarpit
		}
	}
	rate_limit {
		status 503
		message "slöw down"
		zone calls {
			match {
				path /weir.Feed/*
			}
			key {header.X-Client}
			limit 1/1h
		}
	}
	handle_errors {
		respond "error page"
	}
	UPSTREAM
`

// TestGRPC calls through a real client of gRPC, which sees codes and not HTTP.
func TestGRPC(t *testing.T) {
	t.Parallel()
	upstream := grpcUpstream(t)
	proxy := "reverse_proxy h2c://" + upstream
	s, encrypted := serveEverywhere(t, "weir {\n tarpit 1 1s\n}", strings.Replace(callSite, "UPSTREAM", proxy, 1))
	for name, way := range map[string]struct {
		url string
		by  credentials.TransportCredentials
	}{
		"h2c": {s.url, insecure.NewCredentials()},
		"h2":  {encrypted, credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})},
	} {
		t.Run(name, func(t *testing.T) {
			_, address, _ := strings.Cut(way.url, "://")
			conn, err := grpc.NewClient("dns:///"+address, grpc.WithTransportCredentials(way.by), grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			call := func(method string) (*status.Status, metadata.MD, string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var head, tail metadata.MD
				ask, reply := []byte("ask"), []byte(nil)
				err := conn.Invoke(metadata.AppendToOutgoingContext(ctx, "x-client", name), method, &ask, &reply, grpc.Header(&head), grpc.Trailer(&tail))
				return status.Convert(err), metadata.Join(head, tail), string(reply)
			}
			if got, _, reply := call("/weir.Feed/Read"); got.Code() != codes.OK || reply != "ask" {
				t.Fatalf("allowed: %v, %q", got, reply)
			}
			for _, want := range []struct {
				method  string
				code    codes.Code
				message string
			}{
				{"/weir.Feed/Read", codes.ResourceExhausted, "slöw down"},
				{"/weir.Admin/Delete", codes.PermissionDenied, "Permission denied. Try again in "},
				{"/weir.Slow/Read", codes.PermissionDenied, "Permission denied."},
			} {
				got, fields, reply := call(want.method)
				if got.Code() != want.code || !strings.HasPrefix(got.Message(), want.message) || reply != "" {
					t.Errorf("%s: %v %q, %q", want.method, got.Code(), got.Message(), reply)
				}
				if after := strings.Join(fields["retry-after"], " "); (after != "") != (want.method != "/weir.Slow/Read") {
					t.Errorf("%s: retry-after %q among %v", want.method, after, fields)
				}
			}
			// The connection is as good as before.
			if got, _, _ := call("/weir.Other/Read"); got.Code() != codes.OK {
				t.Errorf("afterwards: %v", got)
			}
		})
	}
}

// grpcUpstream runs a server that answers every call with what it was sent.
func grpcUpstream(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		return stream.SendMsg(&message)
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// TestGRPCWeb: browsers speak gRPC-Web, in any version of HTTP; the answer is a head alone.
func TestGRPCWeb(t *testing.T) {
	t.Parallel()
	s, encrypted := serveEverywhere(t, "", strings.Replace(callSite, "UPSTREAM", `respond "through"`, 1))
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		for kind, answer := range map[string]string{
			"application/grpc-web+proto": "application/grpc-web", "application/grpc-web-text": "application/grpc-web-text", "application/grpc": "application/grpc",
		} {
			post := func(path string) (*http.Response, string) {
				res, err := p.send(t, "POST", path, strings.NewReader("\x00\x00\x00\x00\x03ask"), "Content-Type", kind, "X-Client", p.name+kind)
				if err != nil {
					t.Fatal(err)
				}
				return res, readAll(t, res)
			}
			post("/weir.Feed/Read")
			res, body := post("/weir.Feed/Read")
			wantAnswer(t, res, 200, "Grpc-Status", "8", "Grpc-Message", "sl%C3%B6w down", "Content-Type", answer,
				"Retry-After", "3600", "Cache-Control", "no-store", "Ratelimit", `"calls";r=0;t=3600`)
			if body != "" {
				t.Errorf("%s: body %q", kind, body)
			}
			res, body = post("/weir.Admin/Delete")
			wantAnswer(t, res, 200, "Grpc-Status", "7", "Content-Type", answer)
			if body != "" {
				t.Errorf("%s: body %q", kind, body)
			}
		}
	})
}
