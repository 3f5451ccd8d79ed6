package observe

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// noon is when the requests of these tests begin to come.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func poll(path string) *blocklist.Request {
	return &blocklist.Request{
		Source: blocklist.HTTP, Host: "example.com", Path: path, URL: path + "?page=2", Query: "page=2", Method: "GET",
		Client: netip.MustParseAddr("192.0.2.1"),
		Header: map[string][]string{"User-Agent": {"bot/1.0"}, "Accept": {"text/html", "*/*"}},
	}
}

func TestRecentKeepsWhatRulesLookAt(t *testing.T) {
	s := NewRecent(10)
	job := &blocklist.Request{Source: blocklist.Job, Handler: "mail.send", User: "ann", MessageType: "none", Args: []string{"list", "", "7"}}
	s.Begin(poll("/feed.xml"), noon).End(404, "bob")
	s.Begin(job, noon.Add(time.Second))
	all := s.All()
	if len(all) != 2 {
		t.Fatalf("%d requests are kept, want 2", len(all))
	}
	slices.SortFunc(all, func(a, b Seen) int { return a.At.Compare(b.At) })
	want := Seen{Request: *poll("/feed.xml"), At: noon, Weight: 1, Status: 404, User: "bob"}
	all[0].At = all[0].At.UTC()
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("got  %+v\nwant %+v", all[0], want)
	}
	job.Header = map[string][]string{}
	if !reflect.DeepEqual(all[1].Request, *job) || all[1].User != "" || all[1].Status != 0 {
		t.Errorf("got  %+v\nwant %+v", all[1], *job)
	}
}

// TestRecentKeepsNoSecrets looks for what lets somebody in.
func TestRecentKeepsNoSecrets(t *testing.T) {
	s := NewRecent(1)
	r := poll("/")
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Csrf-Token", "X-Session-Id", "X-Amz-Signature"} {
		if Kept(name) {
			t.Errorf("%s is kept", name)
		}
		r.Header[name] = []string{"hunter2"}
	}
	s.Begin(r, noon)
	if text := string(s.slots[0].page.text); strings.Contains(text, "hunter2") {
		t.Errorf("a secret is kept: %q", text)
	}
	if !Kept("Referer") || !Kept("Accept-Language") {
		t.Error("harmless headers are not kept")
	}
}

// TestRecentIsBounded sends what is as long as can be.
func TestRecentIsBounded(t *testing.T) {
	s := NewRecent(4)
	long := strings.Repeat("x", 1<<20)
	for range 20 {
		r := &blocklist.Request{
			Host: long, Path: long, URL: long, Query: long, Method: long,
			MessageType: long, User: long, Handler: long, Header: map[string][]string{"User-Agent": {long}, long: {long}},
		}
		for range 1000 {
			r.Args = append(r.Args, long)
		}
		s.Begin(r, noon).End(200, long)
	}
	for _, seen := range s.All() {
		if !seen.Cut {
			t.Error("nothing is said of what was cut")
		}
		if !strings.HasPrefix(long, seen.User) || seen.User == "" {
			t.Errorf("the user is %d bytes long", len(seen.User))
		}
	}
	for i := range s.slots {
		if c := cap(s.slots[i].page.text); c != pageRoom {
			t.Errorf("a slot has grown to %d bytes, want %d", c, pageRoom)
		}
	}
}

// TestRecentForgetsTheOldest fills the sample over its brim; what became of a request that is
// no longer there concerns nobody.
func TestRecentForgetsTheOldest(t *testing.T) {
	s := NewRecent(3)
	first := s.Begin(poll("/0"), noon)
	for _, path := range []string{"/1", "/2", "/3"} {
		at := noon.Add(time.Minute)
		s.Begin(poll(path), at)
	}
	first.End(500, "late")
	var paths []string
	for _, seen := range s.All() {
		paths = append(paths, seen.Request.Path)
		if seen.Status != 0 || seen.User != "" {
			t.Errorf("%s got the end of another: %+v", seen.Request.Path, seen)
		}
	}
	slices.Sort(paths)
	if want := []string{"/1", "/2", "/3"}; !slices.Equal(paths, want) {
		t.Errorf("kept %q, want %q", paths, want)
	}
}

// TestRecentUnderLoad sends a flood after quiet minutes: the quiet ones are not flushed out, what
// is kept stands for all, and afterwards every request is taken again.
func TestRecentUnderLoad(t *testing.T) {
	s := NewRecent(3000) // 10 a second
	now := noon
	send := func(path string, seconds, perSecond int) {
		for range seconds {
			for i := range perSecond {
				s.Begin(poll(path), now.Add(time.Duration(i)*time.Second/time.Duration(perSecond)))
			}
			now = now.Add(time.Second)
		}
	}
	weights := func() (kept, stand map[string]int64) {
		kept, stand = map[string]int64{}, map[string]int64{}
		for _, seen := range s.All() {
			kept[seen.Request.Path]++
			stand[seen.Request.Path] += seen.Weight
		}
		return kept, stand
	}
	send("/quiet", 100, 5)
	send("/flood", 60, 10_000)
	kept, stand := weights()
	if kept["/quiet"] != 500 || stand["/quiet"] != 500 {
		t.Errorf("of 500 quiet requests %d are kept, for %d", kept["/quiet"], stand["/quiet"])
	}
	// Of about 900 that are kept the standard deviation is a few percent.
	if got := stand["/flood"]; got < 450_000 || got > 750_000 {
		t.Errorf("a flood of 600000 is kept as %d", got)
	}
	send("/after", 30, 2)
	if kept, _ := weights(); kept["/after"] < 20 {
		t.Errorf("of 60 requests after the flood only %d are kept", kept["/after"])
	}
}

// TestRecentTogether has many write and read at once.
func TestRecentTogether(t *testing.T) {
	s := NewRecent(50)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				s.Begin(poll("/"), noon.Add(time.Duration(i)*time.Second)).End(200, "ann")
			}
		})
	}
	for range 20 {
		for _, seen := range s.All() {
			if seen.Request.Path != "/" || seen.Request.Query != "page=2" {
				t.Errorf("a torn request: %+v", seen)
			}
		}
	}
	wg.Wait()
}

func TestRecentAllocatesNothing(t *testing.T) {
	s, r := NewRecent(10), poll("/")
	n := 0
	for range 10 {
		s.Begin(r, noon)
	}
	if allocs := testing.AllocsPerRun(100, func() {
		n++
		s.Begin(r, noon.Add(time.Duration(n)*time.Minute)).End(200, "ann")
	}); allocs != 0 {
		t.Errorf("%v allocations a request", allocs)
	}
}

// BenchmarkRecent measures what a request costs that is offered: under load, as that is when
// it matters, and while every one is taken.
func BenchmarkRecent(b *testing.B) {
	b.Run("load", func(b *testing.B) {
		s, r := NewRecent(RecentSize), poll("/feed.xml")
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				s.Begin(r, time.Now()).End(200, "")
			}
		})
	})
	b.Run("each", func(b *testing.B) {
		s, r := NewRecent(RecentSize), poll("/feed.xml")
		b.ReportAllocs()
		for i := range b.N {
			s.Begin(r, noon.Add(time.Duration(i)*time.Second)).End(200, "ann")
		}
	})
}
