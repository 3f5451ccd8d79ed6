package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// visit has each of the clients that wrk speaks for ask some times: wrk's own threads, which do not
// go at the same pace, would leave some out.
func (v *server) visit(ctx context.Context, clients, times, connections int) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	var (
		next   atomic.Int64
		once   sync.Once
		failed error
		all    sync.WaitGroup
	)
	for range connections {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(clients*times); n = next.Add(1) - 1 {
				if err := v.ask(ctx, transport, n%int64(clients)); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	all.Wait()
	return failed
}

// ask sends one request of the client with that number; see [httpScene.script].
func (v *server) ask(ctx context.Context, transport *http.Transport, client int64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+"/", nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", client/65536, client/256%256, client%256))
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
