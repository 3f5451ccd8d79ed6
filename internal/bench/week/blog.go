package week

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// plan is when the blog changes its feed: posts, and a correction soon after one.
var plan = []time.Duration{
	9*time.Hour + 10*time.Minute,                 // Monday
	9*time.Hour + 25*time.Minute,                 // a correction
	24*time.Hour + 17*time.Hour + 40*time.Minute, // Tuesday
	3*24*time.Hour + 6*time.Hour,                 // Thursday
	4*24*time.Hour + 12*time.Hour + 5*time.Minute,
	5*24*time.Hour + 20*time.Hour + 30*time.Minute,
}

const (
	entries    = 20  // of the feed
	entryWords = 220 // of each, some 1.4 kB
)

// A blog publishes a feed.
type blog struct {
	dir       string
	packs     bool        // by gzip too
	published []time.Time // the versions so far
	byDate    map[string]int
}

// open publishes the version that there is when the week begins, of three days ago.
func (b *blog) open() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	b.byDate = make(map[string]int)
	return b.write(Begin.Add(-3 * 24 * time.Hour))
}

// publish publishes what is due.
func (b *blog) publish(now time.Time) error {
	for next := len(b.published) - 1; next < len(plan) && !now.Before(Begin.Add(plan[next])); next++ {
		if err := b.write(Begin.Add(plan[next])); err != nil {
			return err
		}
	}
	return nil
}

// write replaces the feed by its next version, as of then.
func (b *blog) write(then time.Time) error {
	number := len(b.published)
	b.published = append(b.published, then)
	b.byDate[then.Format(http.TimeFormat)] = number
	text, path := feed(number), filepath.Join(b.dir, "feed.xml")
	if err := writeAt(then, path, text); err != nil || !b.packs {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return writeAt(then, path+".gz", packed.Bytes())
}

// writeAt writes a file that seems to have been written then.
func writeAt(then time.Time, path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, then, then)
}

// versionOf returns the version that an answer with this Last-Modified is of; -1 if it is none.
func (b *blog) versionOf(date string) int {
	if v, ok := b.byDate[date]; ok {
		return v
	}
	return -1
}

// feed returns the feed of a version: twenty entries of what reads like text, the newest first. It
// is some 29 kB, and a third of that by gzip.
func feed(number int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>Notes by the river</title><link>https://blog.example/</link><description>Notes</description><ttl>%d</ttl>
`, Interval/time.Minute)
	for i := range entries {
		entry := number + entries - i
		chance := rand.New(rand.NewPCG(uint64(entry), 0))
		fmt.Fprintf(&b, "<item><title>Note %d</title><link>https://blog.example/%d</link><guid>https://blog.example/%d</guid><description>", entry, entry, entry)
		for range entryWords {
			b.WriteString(word(chance))
			b.WriteByte(' ')
		}
		b.WriteString("</description></item>\n")
	}
	b.WriteString("</channel></rss>\n")
	return []byte(b.String())
}

// word makes up a word; some are much more frequent than others, as in any language.
func word(chance *rand.Rand) string {
	const consonants, vowels = "bdfghklmnprstvw", "aeiou"
	rank := chance.ExpFloat64() * 300
	n := uint64(rank)
	syllables := 1 + int(n%3)
	var b [8]byte
	for i := range syllables {
		n = n*6364136223846793005 + 1442695040888963407
		b[2*i], b[2*i+1] = consonants[n>>33%uint64(len(consonants))], vowels[n>>40%uint64(len(vowels))]
	}
	return string(b[:2*syllables])
}
