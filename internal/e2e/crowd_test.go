package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	weir "github.com/weirhq/caddy-weir"
)

// nobody is a response writer that keeps the status only.
type nobody struct {
	header http.Header
	status int
}

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (w *nobody) WriteHeader(status int)      { w.status = status }

// A visitor calls one rate_limit handler, without a network.
type visitor struct {
	handler *weir.RateLimit
	server  *caddyhttp.Server
	r       *http.Request
	w       nobody
	calls   int
}

var passed = caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
})

// ask returns the status of a request under a key.
func (v *visitor) ask(t *testing.T, key string) int {
	// A refusal leaves placeholders behind: no request is used for long.
	if v.calls%256 == 0 {
		v.w.header = make(http.Header)
		v.r = httptest.NewRequest(http.MethodGet, "/", nil)
		v.r = caddyhttp.PrepareRequest(v.r, caddy.NewReplacer(), &v.w, v.server)
	}
	v.calls++
	v.r.Header["X-Key"] = []string{key}
	clear(v.w.header)
	v.w.status = 0
	if err := v.handler.ServeHTTP(&v.w, v.r, passed); err != nil {
		t.Error(err)
	}
	return v.w.status
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestFloodOfNewKeys sends thirty times as many invented keys as the store may hold. Who is
// at the limit stays refused, who is not keeps what is left, and the memory is that of the
// keys which may be held (B44, and the attack on whatever keeps something a key).
func TestFloodOfNewKeys(t *testing.T) {
	const most, flood, events, workers = 10_000, 300_000, 5, 4
	err := caddy.Load(fmt.Appendf(nil, `{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"apps": {
			"weir": {"max_keys": %d},
			"http": {"servers": {"site": {"automatic_https": {"disable": true}, "routes": [{"handle": [
				{"handler": "rate_limit", "rate_limits": {"flooded": {
					"key": "{http.request.header.X-Key}", "max_events": %d, "window": "1h"
				}}}
			]}]}}}
		}
	}`, most, events), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	app, err := caddy.ActiveContext().App("http")
	if err != nil {
		t.Fatal(err)
	}
	server := app.(*caddyhttp.App).Servers["site"]
	handler := server.Routes[0].Handlers[0].(*weir.RateLimit)

	witness := visitor{handler: handler, server: server}
	for range events {
		witness.ask(t, "at its limit")
	}
	witness.ask(t, "with some left")
	before := heap()

	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			v := visitor{handler: handler, server: server}
			for i := range flood / workers {
				v.ask(t, strconv.FormatUint(rand.Uint64(), 36))
				if i%1000 == 0 && v.ask(t, "at its limit") != http.StatusTooManyRequests {
					t.Errorf("after %d invented keys a client at its limit passed", i)
					return
				}
			}
		})
	}
	wg.Wait()

	if grown := heap() - before; grown > most*600 {
		t.Errorf("the heap has grown by %d bytes for %d keys", grown, most)
	}
	for i := range events {
		want := http.StatusOK
		if i == events-1 {
			want = http.StatusTooManyRequests
		}
		if status := witness.ask(t, "with some left"); status != want {
			t.Errorf("request %d of a client that had %d left: status %d, want %d", i+1, events-1, status, want)
		}
	}
	// What finds no room shares a few budgets: most of the flood was refused.
	through := 0
	for range 1000 {
		if witness.ask(t, strconv.FormatUint(rand.Uint64(), 36)) == http.StatusOK {
			through++
		}
	}
	if through > 0 {
		t.Errorf("%d of 1000 new keys passed in a full store", through)
	}
}
