package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// TestReadersTable shows what people see of the readers of feeds.
func TestReadersTable(t *testing.T) {
	told := &admin.Readers{At: noon, Zones: []admin.ReaderZone{
		{Zone: "quiet"},
		{
			Zone: "feeds", Feeds: 2, ReadersTotal: 1234, FamiliesTotal: 3,
			Total: admin.ReaderSum{Requests: 20_000, Bytes: 123_456_789, Refused: 1439, Since: at(-50 * time.Hour)},
			Readers: []admin.FeedReader{
				{
					Key: "BHJ0EWpNgOmR8DrUuyBqnQ", Feed: "example.com/feed.xml", Agent: "Googlebot/2.1 (+http://www.google.com/bot.html)",
					Since: *at(-24 * time.Hour), Last: *at(-20 * time.Second), Interval: 60, Requests: 1440, Bytes: 41_142_240,
					Unconditional: 1440, Refused: 1439, Early: 1438, Slower: 8, Score: 15,
					Verdict: []string{"ignores Retry-After", "never sends validators", "asks too often"},
				},
				{
					Key: "9bqJ3nPq0sZ3pT1u8C7xkw", Feed: "example.com/feed.xml?tag=\x1b[31m", Agent: "",
					Since: *at(-time.Hour), Last: noon, Requests: 1, Bytes: 999, Unconditional: 1, Score: 75, Verdict: []string{"too new to tell"},
				},
				{
					Key: "x", Since: *at(-49 * time.Hour), Last: *at(-time.Hour), Agent: "newsboat/2.21.0 (Linux x86_64)", Interval: 3540.5,
					Requests: 49, Bytes: 1_000_400, NotModified: 48, Unconditional: 1, Score: 99, Verdict: []string{"polite"},
				},
			},
			Families: []admin.ReaderFamily{
				{Family: "Googlebot", Readers: 1, ReaderSum: admin.ReaderSum{Requests: 1440, Bytes: 41_142_240, Unconditional: 1440, Refused: 1439, Early: 1438}},
				{Family: "none", Readers: 1000, ReaderSum: admin.ReaderSum{Requests: 0}},
			},
		},
	}}
	var b bytes.Buffer
	if err := writeReaders(&b, told); err != nil {
		t.Fatal(err)
	}
	golden(t, "readers", b.String())
	b.Reset()
	if err := writeReaders(&b, &admin.Readers{}); err != nil || b.String() != "No zone is for feeds.\n" {
		t.Errorf("%v %q", err, b.String())
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9951: "10 kB", 999_499: "999 kB", 999_600: "1.0 MB",
		1_234_567: "1.2 MB", 73_000_000_000_000: "73 TB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestReadersAway: nobody answers, and no way past Caddy is told, since there is none.
func TestReadersAway(t *testing.T) {
	_, stderr, err := commandOf(t, "feed", "readers", "--address", "unix//nowhere/at/all")
	if err == nil || !strings.Contains(stderr, "cannot be reached") || strings.Contains(stderr, "--direct") {
		t.Errorf("%v: %s", err, stderr)
	}
	_, stderr, err = commandOf(t, "feed", "reader")
	if err == nil || !strings.Contains(stderr, `unknown verb "reader", did you mean "readers"?`) {
		t.Errorf("%v: %s", err, stderr)
	}
}
