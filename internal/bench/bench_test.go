package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/weirhq/caddy-weir/internal/bench/page"
	"github.com/weirhq/caddy-weir/internal/bench/week"
)

func TestMain(m *testing.M) {
	if os.Getenv(role) == asWrk {
		os.Exit(likeWrk(os.Args[1:]))
	}
	if play() {
		return
	}
	os.Exit(m.Run())
}

// asWrk is a role of tests only: what speaks like wrk where there is none.
const asWrk = "wrk"

// likeWrk asks the server that wrk's arguments name a few times, and reports as wrk does.
func likeWrk(args []string) int {
	url := args[slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "http://") })]
	const requests = 20
	refused := 0
	for range requests {
		resp, err := http.Get(url)
		if err != nil {
			fmt.Println("unable to connect:", err)
			return 1
		}
		resp.Body.Close()
		if resp.StatusCode >= http.StatusBadRequest {
			refused++
		}
	}
	fmt.Printf("     50%%  100.00us\n     99%%    1.50ms\n  %d requests in 1.00s, 1MB read\n", requests)
	if refused > 0 {
		fmt.Printf("  Non-2xx or 3xx responses: %d\n", refused)
	}
	fmt.Println("Requests/sec:   1234.5")
	return 0
}

// smoke returns a bench that measures next to nothing.
func smoke(t *testing.T, args ...string) *bench {
	t.Helper()
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	b := newBench(set)
	b.progress.out = t.Output()
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return b
}

// measure measures scenes of one part.
func measure(t *testing.T, b *bench, name string) *page.Section {
	t.Helper()
	plans, err := b.plans([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ready(plans); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(b.dir)
	section, err := plans[0].part.run(t.Context(), b, b.effort(plans[0].part), plans[0].chosen)
	if err != nil {
		t.Fatal(err)
	}
	return section
}

// Every peer decides in every contest, so that a library that has changed is noticed.
func TestContests(t *testing.T) {
	for name, peers := range map[string]int{"memory": len(memoryPeers), "redis": len(redisPeers)} {
		section := measure(t, smoke(t, "-quick", "-pairs", "1", "-length", "20ms"), name)
		if got := len(section.Tables[0].Rows); got != peers-1 {
			t.Errorf("%s: %d peers are compared, want %d", name, got, peers-1)
		}
	}
}

func TestAccuracy(t *testing.T) {
	section := measure(t, smoke(t, "-length", "400ms"), "accuracy")
	for _, row := range section.Tables[0].Rows {
		// The default promises that no window ever holds more than the limit, on one node
		// or, by Redis, on two.
		upTo := 0
		switch row[0] {
		case memoryPeers[0].Name:
			upTo = len(shapes)
		case redisPeers[0].Name:
			upTo = len(shapes) + 1
		}
		for _, most := range row[1 : 1+upTo] {
			if most > "1.00" {
				t.Errorf("%s passed %s times the limit: %q", row[0], most, row)
			}
		}
	}
}

// What a story says of itself holds whatever the machine is busy with: nobody is answered by an
// error.
func TestOutages(t *testing.T) {
	section := measure(t, smoke(t, "-only", "frozen|slowed|partition", "-length", "500ms"), "outage")
	asked, slept := false, false
	failed, overslept := slices.Index(section.Tables[0].Head, "failed"), slices.Index(section.Tables[0].Head, "overslept")
	for _, row := range section.Tables[0].Rows {
		if row[failed] != "0" {
			t.Errorf("%s, %s: %s of %s requests failed", row[0], row[1], row[failed], row[2])
		}
		asked = asked || row[2] != "0"
		slept = slept || row[overslept] != "0s"
	}
	if !asked || !slept || len(section.Tables[1].Rows) != 3 {
		t.Errorf("got %q", section.Tables)
	}
}

// A few hours of two small blogs: all kinds of readers are told of, and drawn.
func TestFeeds(t *testing.T) {
	section := measure(t, smoke(t, "-quick", "-length", "6h", "-pairs", "2"), "feeds")
	if got := len(section.Tables[1].Rows); got != len(week.Kinds) {
		t.Errorf("%d kinds of readers, want %d", got, len(week.Kinds))
	}
	all := section.Tables[0].Rows[3]
	if all[0] != "all" || all[8] == "0" || !strings.HasPrefix(section.Said[0], "1000 subscribers") || section.Pictures[0].SVG == "" {
		t.Errorf("got %q\n%s", all, section.Said[0])
	}
}

func TestHTTP(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", role, asWrk, self)
	if err := os.WriteFile(filepath.Join(dir, "wrk"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	section := measure(t, smoke(t, "-quick", "-only", "/(allowed/file|refused)/1_key/no_keep-alive$"), "http")
	if got := len(section.Tables[0].Rows); got != 6 {
		t.Fatalf("%d sides were measured, want 6", got)
	}
	for _, row := range section.Tables[0].Rows {
		if row[6] != "1.2 k" || row[7] != "100µs" || row[8] != "1.5ms" {
			t.Errorf("got %q", row)
		}
	}
}

// All configurations are such that Caddy takes them.
func TestConfigurations(t *testing.T) {
	t.Setenv("ADMIN", "off")
	t.Setenv("PORT", "0")
	t.Setenv("SITE", t.TempDir())
	t.Setenv("REDIS", "127.0.0.1:1") // nothing listens, and nothing connects
	adapter := caddyconfig.GetAdapter("caddyfile")
	valid := func(name, text string) {
		t.Helper()
		adapted, warnings, err := adapter.Adapt([]byte(text), nil)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v\n%s", name, err, warnings, text)
			return
		}
		var config caddy.Config
		if err := caddy.StrictUnmarshalJSON(adapted, &config); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(&config); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	for _, s := range httpScenes(many) {
		for i := range s.sides {
			valid(s.file(i), s.config(i))
		}
	}
	valid("one server", outageConfig(redisBlock([]string{"127.0.0.1:1"}, "")))
	valid("sentinels", outageConfig(redisBlock([]string{"127.0.0.1:1", "127.0.0.1:2"}, "sentinel main")))
}

func TestSceneNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range parts {
		for _, name := range p.names() {
			if seen[name] || !strings.HasPrefix(name, p.name+"/") {
				t.Errorf("%s: %q", p.name, name)
			}
			seen[name] = true
		}
	}
}

func TestChoosing(t *testing.T) {
	for _, test := range []struct {
		args, parts []string
		scenes      int
		err         string
	}{
		{args: []string{"-only", "^memory/1_client/"}, scenes: 3},
		{args: nil, parts: []string{"outage"}, scenes: len(outages)},
		{args: nil, parts: []string{"sums"}, err: `no part is called "sums"`},
		{args: []string{"-only", "nothing"}, err: "no scene of http, memory, redis, accuracy matches"},
		{args: []string{"-only", "("}, err: "-only: error parsing regexp"},
	} {
		plans, err := smoke(t, test.args...).plans(test.parts)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q %q: got %v, want %q", test.args, test.parts, err, test.err)
			}
			continue
		}
		scenes := 0
		for _, p := range plans {
			scenes += len(p.chosen)
		}
		if err != nil || scenes != test.scenes {
			t.Errorf("%q %q: %d scenes, %v, want %d", test.args, test.parts, scenes, err, test.scenes)
		}
	}
}

func TestMissingPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	b := smoke(t)
	plans, err := b.plans([]string{"http"})
	if err != nil {
		t.Fatal(err)
	}
	err = b.lookUp(plans)
	for _, want := range []string{"wrk is missing: apt-get install wrk", "redis-server is missing: apt-get install redis-server, or brew install redis"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	plans, err = b.plans([]string{"memory"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.lookUp(plans); err != nil {
		t.Errorf("memory needs neither: %v", err)
	}
}

func TestReadLoad(t *testing.T) {
	l, err := readLoad("     50%  250.50us\n     75%  1.00ms\n     99%    1.50ms\n  123 requests in 1.00s, 1MB read\n  Non-2xx or 3xx responses: 7\nRequests/sec:    122.5\n")
	want := load{123, 7, 122.5, 250500 * time.Nanosecond, 1500 * time.Microsecond}
	if err != nil || l != want {
		t.Errorf("got %+v, %v", l, err)
	}
	for _, report := range []string{
		"unable to connect to 127.0.0.1:80 Connection refused",
		"  Socket errors: connect 0, read 3, write 0, timeout 0\n  123 requests in 1.00s, 1MB read\n",
	} {
		if l, err := readLoad(report); err == nil {
			t.Errorf("%q: got %+v and no error", report, l)
		}
	}
}

func TestWithin(t *testing.T) {
	at := func(sent, answered int, passed bool) passage {
		return passage{time.Duration(sent), time.Duration(answered), passed}
	}
	all := []passage{at(0, 1, true), at(2, 3, false), at(4, 5, true), at(5, 12, true), at(9, 10, true), at(20, 21, true)}
	// In 0 to 9 two passed for certain; in 4 to 13 three, one of them perhaps at 12.
	if got := mostWithin(all, 10); got != 3 {
		t.Errorf("got %d", got)
	}
	if n, last := firstWithin(all, 10); n != 2 || last != 5 {
		t.Errorf("got %d until %d", n, last)
	}
	// A log of two in 10 lets through what was sent at 0, 2, not 4, 5, 9, and 20.
	if got := exactly(all, 2, 10); got != 3 {
		t.Errorf("an exact log admits %d", got)
	}
}

func TestExactFrom(t *testing.T) {
	var events []event
	for i := range outageLimit + 1 {
		sent := time.Second + time.Duration(i)*time.Millisecond
		events = append(events, event{key: 1, since: sent, sent: sent, done: sent + time.Microsecond, status: http.StatusOK})
	}
	if got := exactFrom(events[:outageLimit]); got != 0 {
		t.Errorf("within the limit: got %s", got)
	}
	if got := exactFrom(events); got != events[outageLimit].done {
		t.Errorf("one too many: got %s", got)
	}
	events[0].status = http.StatusTooManyRequests
	if got := exactFrom(events); got != 0 {
		t.Errorf("one is refused: got %s", got)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out}
	p.expect("a", time.Minute)
	p.expect("b", time.Hour)
	p.begin("a")
	p.of(100)
	p.step("first")
	if !strings.Contains(out.String(), "first: step 1 of 100, about 1h1m0s left") {
		t.Errorf("got %q", out.String())
	}
	p.done = 50
	if got := p.left(time.Hour); got != 2*time.Hour {
		t.Errorf("half of a took an hour: %s left", got)
	}
	p.begin("b")
	if got := p.left(20 * time.Minute); got != 40*time.Minute {
		t.Errorf("got %s", got)
	}
}

// BenchmarkFields measures what Go's server does with the fields of an answer: it copies them,
// sorts them and writes them. A file from Caddy has the first seven; rate_limit adds the rest.
func BenchmarkFields(b *testing.B) {
	names := []string{
		"Server", "Vary", "Etag", "Last-Modified", "Accept-Ranges", "Content-Type", "Content-Length",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit-Policy", "Ratelimit",
	}
	values := []string{`"all";r=999999999;t=3600`}
	for _, n := range []int{7, 8, 9, 12} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := make(http.Header)
				for _, name := range names[:n] {
					h[name] = values
				}
				if err := h.Clone().Write(io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
