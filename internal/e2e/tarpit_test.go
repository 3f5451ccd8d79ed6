package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTarpitInEveryProtocol: the answer takes its time, and in HTTP/2 and 3 nobody else on the
// connection waits for it, not even uploads while the tarpit ignores one.
func TestTarpitInEveryProtocol(t *testing.T) {
	t.Parallel()
	const span = 3 * time.Second
	upstream := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	site := strings.Split(actions, "handle_errors")[0] + "reverse_proxy " + upstream + "\n"
	s, encrypted := serveEverywhere(t, "weir {\n tarpit 100 3s\n}", site)
	each(t, protocolsOf(t, s, encrypted), func(t *testing.T, p protocol) {
		t.Parallel()
		begun := time.Now()
		held := make(chan time.Duration, 3)
		hold := func(method string, body io.Reader) {
			t.Helper()
			res, err := p.send(t, method, "/tarpit", body)
			if err != nil {
				t.Fatal(err)
			}
			wantAnswer(t, res, 403, "Cache-Control", "no-store", "Content-Length", "11")
			go func() {
				text, err := io.ReadAll(res.Body)
				if err != nil || string(text) != "Forbidden.\n" {
					t.Errorf("%s: body %q, %v", method, text, err)
				}
				held <- time.Since(begun)
			}()
		}
		hold("GET", nil)
		waits := 1
		if p.major > 1 {
			done := make(chan struct{})
			defer close(done)
			hold("PUT", &endless{done: done})
			hold("PUT", &endless{done: done})
			waits = 3
		}
		if took := time.Since(begun); took > span {
			t.Errorf("the heads took %s", took)
		}
		const size = 4 << 20
		res, err := p.send(t, "PUT", "/", io.LimitReader(zeros{}, size))
		if err != nil {
			t.Fatal(err)
		}
		if text := readAll(t, res); text != strconv.Itoa(size) {
			t.Errorf("the other upload: %q of %d bytes", text, size)
		}
		if took := time.Since(begun); took > span {
			t.Errorf("the other upload took %s", took)
		}
		for range waits {
			if took := <-held; took < span-100*time.Millisecond {
				t.Errorf("held for %s only", took)
			}
		}
		// HEAD has nothing to drip.
		begun = time.Now()
		if res, _ := p.get(t, "HEAD", "/tarpit"); res.StatusCode != 403 || time.Since(begun) < span-100*time.Millisecond {
			t.Errorf("HEAD: status %d after %s", res.StatusCode, time.Since(begun))
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// TestTarpitExhaustsNothing sends a thousand clients into the tarpit: some are held, the
// others refused at once, and everybody else is served. Afterwards there is nothing left of
// them.
func TestTarpitExhaustsNothing(t *testing.T) {
	t.Parallel()
	const clients, most = 1000, 128
	s := serveActions(t, "weir {\n tarpit 128 10m\n}")
	before, _ := s.goroutines(t)

	var bodies []io.Closer
	var mu sync.Mutex
	refused, failed := 0, 0
	tr := &http.Transport{MaxIdleConnsPerHost: clients}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			res, err := tr.RoundTrip(request(t, s.url+"/tarpit"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil || res.StatusCode != 403:
				failed++
			case res.Close:
				bodies = append(bodies, res.Body)
			default:
				refused++
				res.Body.Close()
			}
		})
	}
	wg.Wait()
	if len(bodies) != most || refused != clients-most || failed > 0 {
		t.Fatalf("%d held, %d refused, %d failed", len(bodies), refused, failed)
	}
	shots, err := load{urls: []string{s.url + "/", s.url + "/blocked"}, clients: 8, count: 400}.run()
	if err != nil {
		t.Fatal(err)
	}
	if got := tally(shots); got != "200=200 403=200" {
		t.Errorf("meanwhile: %s", got)
	}
	if most := slowest(shots); most > 2*time.Second {
		t.Errorf("meanwhile the slowest answer took %s", most)
	}
	metrics := s.metrics(t)
	for _, line := range []string{`{outcome="tarpitted",rule="slow"} 128`, `{outcome="refused",rule="slow"} 872`} {
		if !strings.Contains(metrics, "caddy_weir_block_requests_total"+line) {
			t.Errorf("no metric %s", line)
		}
	}

	// L56: clients that go away leave nothing behind, and their places are free.
	for _, b := range bodies {
		b.Close()
	}
	tr.CloseIdleConnections()
	after, profile := 0, ""
	if !poll(func() bool { after, profile = s.goroutines(t); return after <= before+10 }) {
		t.Errorf("%d goroutines, %d before:\n%s", after, before, profile)
	}
	res, err := tr.RoundTrip(request(t, s.url+"/tarpit"))
	if err != nil {
		t.Fatal(err)
	}
	if !res.Close {
		t.Error("there is no place in the tarpit")
	}
	res.Body.Close()
}

// TestTarpitEndsWithItsServer: neither a reload nor the end of the process waits for those
// who are held.
func TestTarpitEndsWithItsServer(t *testing.T) {
	t.Parallel()
	ends := func(what string, body <-chan string) {
		t.Helper()
		select {
		case text := <-body:
			if text != "Forbidden.\n" {
				t.Errorf("%s: the answer ends as %q", what, text)
			}
		case <-time.After(patience):
			t.Errorf("%s: still held", what)
		}
	}
	var second <-chan string
	t.Cleanup(func() { ends("the end", second) }) // when the node has been stopped in good time
	s := serveActions(t, "weir {\n tarpit 4 10m\n}")
	hold := func() <-chan string {
		t.Helper()
		// Without its own context, which ends before the node does.
		res, err := new(http.Client).Get(s.url + "/tarpit")
		if err != nil {
			t.Fatal(err)
		}
		body := make(chan string, 1)
		go func() {
			text, _ := io.ReadAll(res.Body) // what is missing is seen
			body <- string(text)
		}()
		return body
	}
	first := hold()
	s.change(t, "{\n weir {\n tarpit 4 10m\n}\n}\nhttp://:{$PORT} {\n block {\n rule slow {\n path /tarpit\n action tarpit\n }\n }\n}\n")
	ends("reload", first)
	second = hold()
}

func request(t *testing.T, url string) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
	}
	return r
}

// metrics returns what the node counts.
func (s *site) metrics(t *testing.T) string {
	t.Helper()
	res, err := http.Get("http://" + s.admin() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, res)
}
