package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// send asks a site for a path with these headers, name and value in turn.
func (s *site) send(t *testing.T, client *http.Client, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestForwardedFor sends what proxies, and those who pretend to be one, put into
// X-Forwarded-For. Whoever is meant is found: what is left of him is spent (L70, B32).
func TestForwardedFor(t *testing.T) {
	t.Parallel()
	const config = `{
	servers {
		trusted_proxies static 127.0.0.1/32 10.0.0.0/8
		trusted_proxies_strict
	}
}
:{$PORT} {
	rate_limit 1/1h
	respond "through"
}
`
	s := serve(t, config)
	client := newClient(1)
	defer client.CloseIdleConnections()
	hops := make([]string, 200)
	for i := range hops {
		hops[i] = fmt.Sprintf("192.0.2.%d", i)
	}
	for i, c := range []struct {
		name  string
		lines []string // in which %s stands for the client
	}{
		{"one", []string{"%s"}},
		{"a claim of the client's before it", []string{"192.0.2.1, %s"}},
		{"a claim in a line of its own", []string{"192.0.2.1", "%s"}},
		{"three lines", []string{"192.0.2.1", "%s", "10.0.0.7"}},
		{"our own proxies behind it", []string{"%s, 10.0.0.1, 10.255.0.1"}},
		{"spaces", []string{"192.0.2.1 ,   %s  ,10.0.0.1"}},
		{"tabs", []string{"192.0.2.1,\t%s"}},
		{"a port", []string{"192.0.2.1:80, %s:4711"}},
		{"empty entries", []string{",, %s ,,"}},
		{"garbage behind it", []string{"%s, unknown, _hidden, ::::, 1.2.3, 999.1.1.1, '; drop"}},
		{"mapped", []string{"192.0.2.1, ::ffff:%s"}},
		{"mapped with brackets and port", []string{"192.0.2.1", "[::ffff:%s]:4711"}},
		{"translated", []string{"192.0.2.1, 64:ff9b::%s"}},
		{"200 hops", []string{strings.Join(hops, ", ") + ", %s"}},
		{"200 lines", append(append([]string(nil), hops...), "%s")},
		{"ten thousand times nothing", []string{strings.Repeat(",", 10_000) + "%s"}},
	} {
		who := fmt.Sprintf("198.51.100.%d", i)
		var headers []string
		for _, line := range c.lines {
			headers = append(headers, "X-Forwarded-For", strings.Replace(line, "%s", who, 1))
		}
		if resp, _ := s.send(t, client, "GET", "/", headers...); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: the first request got %s: somebody else's budget", c.name, resp.Status)
		}
		if resp, _ := s.send(t, client, "GET", "/", "X-Forwarded-For", who); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: the second got %s: a budget of its own", c.name, resp.Status)
		}
	}
	// This one it passes over, though it may be the client: that is said.
	s.send(t, client, "GET", "/", "X-Forwarded-For", "192.0.2.1, [2001:db8::1]:4711")
	if err := s.waitLog("cannot read"); err != nil {
		t.Error(err)
	}
	// Other headers are nobody's word, nor is anything that comes from elsewhere.
	forged := func(i int) []string {
		return []string{"X-Real-Ip", fmt.Sprintf("192.0.2.%d", i), "Forwarded", fmt.Sprintf("for=192.0.2.%d", i), "X-Forwarded-For", "nonsense"}
	}
	if resp, _ := s.send(t, client, "GET", "/", forged(1)...); resp.StatusCode != http.StatusOK {
		t.Errorf("without a client: %s", resp.Status)
	}
	for i := range 5 {
		if resp, _ := s.send(t, client, "GET", "/", forged(2+i)...); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("with another X-Real-IP: %s", resp.Status)
		}
	}
	open := serve(t, config[strings.Index(config, ":{$PORT}"):])
	for i := range 5 {
		want := http.StatusTooManyRequests
		if i == 0 {
			want = http.StatusOK
		}
		if resp, _ := open.send(t, client, "GET", "/", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", 200+i)); resp.StatusCode != want {
			t.Errorf("request %d from a peer that is not trusted: %s, want %d", i, resp.Status, want)
		}
	}
}

// TestPreflight sends what a browser sends before a request to another origin. Where it is
// exempt it never spends what the page needs, and a refusal has the headers without which the
// page would not be told of it (L73).
func TestPreflight(t *testing.T) {
	t.Parallel()
	s := serve(t, `:{$PORT} {
	header Access-Control-Allow-Origin "https://page.example"
	header Access-Control-Expose-Headers "Retry-After"
	@preflight method OPTIONS
	rate_limit {
		zone api {
			key {header.Authorization}
			limit 2/1h
			exempt @preflight
		}
	}
	respond @preflight 204
	respond "through"
}
`)
	client := newClient(1)
	defer client.CloseIdleConnections()
	const origin = "https://page.example"
	for i, want := range []int{200, 200, 429} {
		resp, _ := s.send(t, client, "OPTIONS", "/", "Origin", origin, "Access-Control-Request-Method", "GET")
		if got := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != http.StatusNoContent || got != origin {
			t.Errorf("preflight %d: %s, for %q", i, resp.Status, got)
		}
		resp, _ = s.send(t, client, "GET", "/", "Origin", origin, "Authorization", "Bearer ada")
		if got := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != want || got != origin {
			t.Errorf("request %d: %s, want %d, for %q", i, resp.Status, want, got)
		}
		if want == 429 && (resp.Header.Get("Retry-After") == "" || resp.Header.Get("Access-Control-Expose-Headers") != "Retry-After") {
			t.Errorf("refused with %v", resp.Header)
		}
	}
}

// TestKeysAreNotEchoed refuses a client whose key is full of what would split a header or a
// line of a log. No answer repeats the key, and the log, which was asked to, has it in one
// line and escaped (L80, L121).
func TestKeysAreNotEchoed(t *testing.T) {
	t.Parallel()
	s := serve(t, `:{$PORT} {
	rate_limit / 1/1h {query.k} {
		log_key
	}
	respond "through"
	handle_errors {
		respond "{http.rate_limit.exceeded.name} {http.rate_limit.exceeded.key_hash}"
	}
}
`)
	client := newClient(1)
	defer client.CloseIdleConnections()
	const path = "/?k=se%0D%0ASet-Cookie:%20sesame%0A%7B%22level%22:%22forged%22%7D%00%1B%5B31m%FF"
	if resp, _ := s.send(t, client, "GET", path); resp.StatusCode != http.StatusOK {
		t.Fatalf("the first request: %s", resp.Status)
	}
	resp, body := s.send(t, client, "GET", path)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	if answer := fmt.Sprint(resp.Header) + body; strings.Contains(answer, "sesame") {
		t.Errorf("the answer repeats the key: %s", answer)
	}
	if err := s.waitLog("rate limit exceeded"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "rate limit exceeded") {
			told = strings.Contains(line, `se\r\nSet-Cookie: sesame\n`)
		}
		if !strings.HasPrefix(line, `{"level":"`) || strings.Contains(line, `{"level":"forged"`) ||
			strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("a line of the log: %q", line)
		}
	}
	if !told {
		t.Errorf("the key is not in the log:\n%s", text)
	}
}
