package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/feed"
	"github.com/weirhq/caddy-weir/limiter"
)

// feedZones are the zones for feeds of one configuration. The zero value has none.
type feedZones struct {
	mu    sync.Mutex
	zones map[string]*feedMeter
}

// add makes a zone known. Zones of one name are one zone.
func (z *feedZones) add(f *feedMeter) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.zones == nil {
		z.zones = make(map[string]*feedMeter)
	}
	z.zones[f.zone] = f
}

// all returns the zones in the order of their names.
func (z *feedZones) all() []*feedMeter {
	z.mu.Lock()
	defer z.mu.Unlock()
	all := make([]*feedMeter, 0, len(z.zones))
	for _, name := range slices.Sorted(maps.Keys(z.zones)) {
		all = append(all, z.zones[name])
	}
	return all
}

// A ReaderQuery narrows down whose conduct is told. Empty fields stand for all.
type ReaderQuery struct {
	// Zone is the name of a zone for feeds.
	Zone string
	// Feed is a path, or an address without or with the scheme.
	Feed string
	// Client is an address: only what has the key of its network.
	Client string
}

// FeedZone is what this node knows of the readers of one zone.
type FeedZone struct {
	Zone    string
	Readers []feed.Conduct
}

// FeedReaders tells how the readers of feeds behave, as this node saw them since it was started.
func (s *Shared) FeedReaders(q ReaderQuery) ([]FeedZone, error) {
	zones := s.feeds.all()
	if q.Zone != "" {
		named := slices.DeleteFunc(slices.Clone(zones), func(f *feedMeter) bool { return f.zone != q.Zone })
		if len(named) == 0 {
			return nil, blocklist.Refuse(noFeedZone(q.Zone, zones))
		}
		zones = named
	}
	var client netip.Addr
	if q.Client != "" {
		var err error
		if client, err = netip.ParseAddr(q.Client); err != nil {
			return nil, blocklist.Refuse(fmt.Errorf("client: must be an address, got %q", q.Client))
		}
		client = blocklist.Plain(client)
	}
	all := make([]FeedZone, 0, len(zones))
	for _, f := range zones {
		name, isFeed := "", f.named(q.Feed)
		if client.IsValid() {
			name = s.hasher.String(string(f.bits.appendNetwork(nil, client)))
		}
		all = append(all, FeedZone{f.zone, f.book.Conducts(&f.rules, func(c *feed.Conduct) bool {
			return (name == "" || c.Key == name) && isFeed(c.Feed)
		})})
	}
	return all, nil
}

func noFeedZone(name string, zones []*feedMeter) error {
	if len(zones) == 0 {
		return errors.New("zone: none is for feeds")
	}
	names := make([]string, len(zones))
	for i, f := range zones {
		names[i] = f.zone
	}
	return fmt.Errorf("zone: %q is none for feeds (known here: %s)", name, strings.Join(names, ", "))
}

// named returns what tells whether a feed's name is meant by a text: a path, or an address. It
// means the feed however it is spelled, as a request would.
func (f *feedMeter) named(text string) func(name string) bool {
	if text == "" {
		return func(string) bool { return true }
	}
	if _, rest, found := strings.Cut(text, "://"); found {
		text = rest
	}
	host, rest := text, ""
	if i := strings.IndexByte(text, '/'); i >= 0 {
		host, rest = text[:i], text[i:]
	}
	path, query, _ := strings.Cut(rest, "?")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	want := string(f.names.AppendTo(nil, host, path, query))
	return func(name string) bool {
		if host == "" {
			name = name[max(strings.IndexByte(name, '/'), 0):]
		}
		return name == want
	}
}

// feedName is the name of the feed that the part is about.
func (p *part) feedName() string { return p.budget[len(p.owner) : len(p.budget)-2] }

// aggregatorName is the name of the aggregator that the part is about, empty if it is about none.
func (p *part) aggregatorName() string {
	if p.aggregator == nil {
		return ""
	}
	return p.aggregator.Name
}

// toldWait is the wait that Retry-After tells, 0 if it tells none.
func toldWait(wait time.Duration) time.Duration {
	if wait == limiter.Never {
		return 0
	}
	return wait
}
