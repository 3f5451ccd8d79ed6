package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// podcastBudget is what a client may load of one episode in a day, in kB.
const podcastBudget = 500_000

// servePodcast runs the example on a port of its own, with two episodes of that many bytes.
func servePodcast(t *testing.T, size int64) *site {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "podcast", "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "episodes"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.mp3", "2.mp3"} {
		file := filepath.Join(root, "episodes", name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, strings.NewReplacer("http://localhost:8080 {", "http://:{$PORT} {", "root site", "root "+strconv.Quote(root)).Replace(string(text)))
}

// paid is how many kB of an episode were charged, as a HEAD is told, which is charged 1 until it is
// answered.
func (s *site) paid(t *testing.T, path string) int {
	t.Helper()
	res, err := http.Head(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	left, err := strconv.Atoi(res.Header.Get("X-Ratelimit-Remaining"))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", path, res.Status, res.Header)
	}
	return podcastBudget - 1 - left
}

// TestPodcastBytes: what was sent counts, in one piece or in many, a moment after the client has
// it.
func TestPodcastBytes(t *testing.T) {
	t.Parallel()
	const size = 2_000_000
	s := servePodcast(t, size)
	get := func(want int, path string, header ...string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want {
			t.Fatalf("%s %v: %s, want %d; %v", path, header, res.Status, want, err)
		}
	}
	sum := func(path string, want int) {
		t.Helper()
		got := 0
		if !poll(func() bool { got = s.paid(t, path); return got == want }) {
			t.Errorf("%s: %d kB paid, want %d", path, got, want)
		}
	}
	sum("/episodes/1.mp3", 0) // to look costs nothing
	get(200, "/episodes/1.mp3")
	sum("/episodes/1.mp3", 2000)
	get(304, "/episodes/1.mp3", "If-None-Match", "*")
	sum("/episodes/1.mp3", 2000)

	// A player that loads the other one in twenty parts, several at once.
	var parts [20]chan struct{}
	for i := range parts {
		parts[i] = make(chan struct{})
		go func() {
			defer close(parts[i])
			if i >= 5 {
				<-parts[i-5]
			}
			part := fmt.Sprintf("bytes=%d-%d", i*size/20, (i+1)*size/20-1)
			r, _ := http.NewRequest(http.MethodGet, s.url+"/episodes/2.mp3", nil)
			r.Header.Set("Range", part)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusPartialContent {
				t.Errorf("%s: %s, %v", part, res.Status, err)
			}
		}()
	}
	for i := range parts {
		<-parts[i]
	}
	sum("/episodes/2.mp3", 2000)
	// Parts that end within a kB are rounded up, and a part that is none costs the line that says so.
	get(206, "/episodes/2.mp3", "Range", "bytes=0-65535")
	sum("/episodes/2.mp3", 2066)
	get(416, "/episodes/2.mp3", "Range", "bytes=20000000-")
	sum("/episodes/2.mp3", 2067)
}

// TestPodcastAborts: who breaks a download off, as players do when their listener jumps, pays for
// what was sent until then, wherever it began.
func TestPodcastAborts(t *testing.T) {
	t.Parallel()
	s := servePodcast(t, 400_000_000)
	for path, header := range map[string]string{"/episodes/1.mp3": "X-Whole: yes", "/episodes/2.mp3": "Range: bytes=300000000-"} {
		c := s.dial(t)
		c.say("GET "+path+" HTTP/1.1", "Host: podcast.example", header, "", "")
		res, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode >= 300 {
			t.Fatalf("%s: %s", path, res.Status)
		}
		if _, err := io.CopyN(io.Discard, res.Body, 1_000_000); err != nil {
			t.Fatal(err)
		}
		c.Close()
		// What lies in the buffers of the sockets counts as sent: some MB.
		paid := 0
		poll(func() bool { paid = s.paid(t, path); return paid > 1 })
		if paid < 1000 || paid > 50_000 {
			t.Errorf("%s: %d kB paid", path, paid)
		}
	}
}
