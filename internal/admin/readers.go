package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/feed"
)

// AskReaders says which readers a [Readers] is to show.
type AskReaders struct {
	// Zone, Feed and Client narrow it down: the name of a zone; a path or an address of a
	// feed; the address of a client.
	Zone, Feed, Client string
	// Top is the most readers and families to show of each zone. 0 shows none.
	Top int
	// Sort is the order, the worst first, see [ReaderOrders]. Default: bytes.
	Sort string
}

// ReaderOrders are the words of AskReaders.Sort.
var ReaderOrders = feed.Orders

// Readers tells how the readers of feeds behave, as the node that is asked has seen them since it
// was started: other nodes have seen others. Where Caddy keeps 100,000 pairs of reader and feed in
// a zone already, those that came last longest ago are not told of.
type Readers struct {
	// At is when this was so.
	At time.Time `json:"at"`
	// Zones for feeds, by name.
	Zones []ReaderZone `json:"zones"`
}

// ReaderZone is a zone for feeds.
type ReaderZone struct {
	Zone string `json:"zone"`
	// Feeds and ReadersTotal are how many there are, of those that were asked for; a reader of
	// two feeds counts twice.
	Feeds        int `json:"feeds"`
	ReadersTotal int `json:"readers_total"`
	// Total adds them all up.
	Total ReaderSum `json:"total"`
	// Readers are the first of them.
	Readers []FeedReader `json:"readers"`
	// Families of agents, those with the most bytes first, and FamiliesTotal all there are.
	Families      []ReaderFamily `json:"families"`
	FamiliesTotal int            `json:"families_total"`
}

// ReaderSum adds up the readers of a zone, or of a family of agents.
type ReaderSum struct {
	Requests      int64 `json:"requests"`
	Bytes         int64 `json:"bytes"`
	Unconditional int64 `json:"unconditional"`
	NotModified   int64 `json:"not_modified"`
	Refused       int64 `json:"refused"`
	Early         int64 `json:"early"`
	// Since is when the first of the readers was first seen.
	Since *time.Time `json:"since,omitempty"`
}

// ReaderFamily is all readers whose agents have one name.
type ReaderFamily struct {
	Family string `json:"family"`
	// Readers are pairs of reader and feed.
	Readers int `json:"readers"`
	ReaderSum
}

// FeedReader is one reader of one feed.
type FeedReader struct {
	// Key is a keyed hash of the reader's key: the same as `key_hash` in the log, and as
	// {http.rate_limit.exceeded.key_hash}.
	Key string `json:"key"`
	// Feed is the feed's name; empty if it was never served.
	Feed string `json:"feed,omitempty"`
	// Agent is the beginning of the last User-Agent.
	Agent string    `json:"agent,omitempty"`
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Interval is the median of the last times between requests, in seconds; 0 if there was one.
	Interval float64 `json:"interval"`
	Requests int64   `json:"requests"`
	// Bytes of the bodies that were sent.
	Bytes int64 `json:"bytes"`
	// Unconditional requests wanted everything again, and MadeUp ones showed a validator that
	// was never the feed's.
	Unconditional int64 `json:"unconditional"`
	MadeUp        int64 `json:"made_up"`
	// Uncompressed requests take no compression, Extra ones have parameters that are not
	// declared, and Cookies ones send cookies.
	Uncompressed int64 `json:"uncompressed"`
	Extra        int64 `json:"extra"`
	Cookies      int64 `json:"cookies"`
	NotModified  int64 `json:"not_modified"`
	Refused      int64 `json:"refused"`
	// Early requests came before the Retry-After that the reader was told.
	Early int64 `json:"early"`
	// Slower is how many times as far apart its whole feeds are, if it is penalised.
	Slower int `json:"slower,omitempty"`
	// Score is from 0 to 100, which is polite; Verdict says what is wrong, the worst first.
	Score   int      `json:"score"`
	Verdict []string `json:"verdict"`
}

// The verdicts of a reader with which nothing is wrong.
const (
	polite = "polite"
	tooNew = "too new to tell"
)

// usualReaders is how many readers of a zone are shown unless somebody wants more.
const usualReaders = 20

func serveReaders(w http.ResponseWriter, r *http.Request) error {
	running, err := admit(w, r, "readers", http.MethodGet)
	if err != nil {
		return err
	}
	told, err := readers(running, r.URL.Query())
	if err != nil {
		return failure(err)
	}
	return write(w, told)
}

// readers answers what a query asks.
func readers(running *config.Shared, q url.Values) (told Readers, err error) {
	for name := range q {
		if !slices.Contains([]string{"zone", "feed", "client", "top", "sort"}, name) {
			return told, blocklist.Refuse(fmt.Errorf("unknown parameter %q (known here: zone, feed, client, top, sort)", name))
		}
	}
	a := AskReaders{Zone: q.Get("zone"), Feed: q.Get("feed"), Client: q.Get("client"), Sort: cmp.Or(q.Get("sort"), ReaderOrders[0])}
	if !slices.Contains(ReaderOrders, a.Sort) {
		return told, blocklist.Refuse(fmt.Errorf("sort: must be one of %s, got %q", strings.Join(ReaderOrders, ", "), a.Sort))
	}
	if a.Top, err = count(q, "top", usualReaders); err != nil {
		return told, err
	}
	zones, err := running.FeedReaders(config.ReaderQuery{Zone: a.Zone, Feed: a.Feed, Client: a.Client})
	if err != nil {
		return told, err
	}
	told = Readers{At: config.Now(), Zones: make([]ReaderZone, len(zones))}
	for i := range zones {
		told.Zones[i] = readerZone(&zones[i], &a)
	}
	return told, nil
}

func readerZone(z *config.FeedZone, a *AskReaders) ReaderZone {
	total, families := feed.Total(z.Readers)
	feed.Sort(z.Readers, a.Sort)
	out := ReaderZone{
		Zone: z.Zone, ReadersTotal: len(z.Readers), Total: readerSum(&total), FamiliesTotal: len(families),
		Readers: []FeedReader{}, Families: []ReaderFamily{},
	}
	feeds := make(map[string]bool)
	for i := range z.Readers {
		if name := z.Readers[i].Feed; name != "" {
			feeds[name] = true
		}
	}
	out.Feeds = len(feeds)
	for i := range z.Readers[:min(a.Top, len(z.Readers))] {
		out.Readers = append(out.Readers, feedReader(&z.Readers[i]))
	}
	for i := range families[:min(a.Top, len(families))] {
		f := &families[i]
		out.Families = append(out.Families, ReaderFamily{f.Family, f.Readers, readerSum(&f.Sum)})
	}
	return out
}

func readerSum(s *feed.Sum) ReaderSum {
	sum := ReaderSum{
		Requests: s.Requests, Bytes: s.Bytes, Unconditional: s.Unconditional,
		NotModified: s.NotModified, Refused: s.Refused, Early: s.Early,
	}
	if s.Readers > 0 {
		sum.Since = &s.Since
	}
	return sum
}

func feedReader(c *feed.Conduct) FeedReader {
	r := FeedReader{
		Key: c.Key, Feed: c.Feed, Agent: c.Agent, Since: c.Since, Last: c.Last, Interval: c.Interval.Seconds(),
		Requests: c.Requests, Bytes: c.Bytes, Unconditional: c.Unconditional, MadeUp: c.MadeUp,
		Uncompressed: c.Uncompressed, Extra: c.Extra, Cookies: c.Cookies,
		NotModified: c.NotModified, Refused: c.Refused, Early: c.Early,
		Score: c.Score(), Verdict: c.Verdict(),
	}
	if c.Slower > 1 {
		r.Slower = c.Slower
	}
	switch {
	case c.New():
		r.Verdict = []string{tooNew}
	case len(r.Verdict) == 0:
		r.Verdict = []string{polite}
	}
	return r
}

// Readers asks how the readers of feeds behave.
func (c *Client) Readers(ctx context.Context, a AskReaders) (Readers, error) {
	q := url.Values{"top": {strconv.Itoa(a.Top)}}
	for name, value := range map[string]string{"zone": a.Zone, "feed": a.Feed, "client": a.Client, "sort": a.Sort} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return ask[Readers](ctx, c, http.MethodGet, "feed/readers?"+q.Encode(), nil)
}
