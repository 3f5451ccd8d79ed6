package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	lists "github.com/weirhq/caddy-weir/blocklist/source"
)

// IPSource is the configuration of the module http.ip_sources.weir: ranges from a file or from the
// web, in any format of lists of addresses, for what in Caddy wants ranges, such as the trusted proxies of
// a server. Nothing is cut out of them. A list on the web is kept on disk, and fetched as lists to block by are.
type IPSource struct {
	// File is the path of a list on disk, looked at each second; or URL is the address of one on
	// the web, http or https. Placeholders are replaced. Required.
	File string `json:"file,omitempty"`
	URL  string `json:"url,omitempty"`
	// Format of the list. Default: `auto`.
	Format string `json:"format,omitempty"`
	// Refresh is how often a list on the web is downloaded, at least 5m. Default: 24h.
	Refresh caddy.Duration `json:"refresh,omitempty"`
	// Timeout is how long one download may take, and how long the first one is waited for. Default: 10s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// Header is sent along, for keys. Placeholders in values are replaced.
	Header map[string][]string `json:"header,omitempty"`
	// Broad takes ranges wider than /8, or in IPv6 than /19, and a list that covers any number of addresses.
	// Default: such ranges are rejected, and such a list is refused, see [ListOptions.MaxCover].
	Broad bool `json:"broad,omitempty"`
}

// defaultFirstWait is how long a load of the configuration waits for a list that it never had.
const defaultFirstWait = caddy.Duration(10 * time.Second)

// list returns the list as one of those that requests are blocked by.
func (s *IPSource) list() *SharedBlock {
	o := ListOptions{Format: s.Format, Broad: s.Broad, AcceptGrown: s.Broad, KeepPrivate: true}
	if s.Broad {
		o.MaxCover = lists.AnyCover
	}
	b := new(SharedBlock)
	if s.File != "" {
		b.Files = []ListFile{{Path: s.File, ListOptions: o}}
	}
	if s.URL != "" {
		b.URLs = []ListURL{{URL: s.URL, Refresh: s.Refresh, Timeout: s.Timeout, Header: s.Header, ListOptions: o}}
	}
	return b
}

// check says what is wrong with the module.
func (s *IPSource) check(r report) {
	if (s.File == "") == (s.URL == "") {
		r.problemf("must have a file or a url")
	}
	if s.File != "" && (s.Refresh != 0 || s.Timeout != 0 || len(s.Header) > 0) {
		r.in("file").problemf("is looked at each second: refresh, timeout and header are for a url")
	}
	if format, err := lists.ParseFormat(s.Format); err == nil && (format == lists.Agents || format == lists.Robots) {
		r.in("format").problemf("must be one of addresses, got %s", s.Format)
	}
	s.list().check(r)
}

// Ranges are those of an IPSource that is built.
type Ranges struct {
	holds holds
	*ranges
}

// ranges are those of one list, in all configurations that name it.
type ranges struct {
	now  atomic.Pointer[[]netip.Prefix]
	stop func()
}

// A rangesKey names the ranges in the pool, by all that is said of their list.
type rangesKey struct{ list string }

// Destruct implements [caddy.Destructor].
func (r *ranges) Destruct() error {
	r.stop()
	return nil
}

// Build reads the list and has it followed. One of the web that was never there is waited for; without a
// list it fails, for an empty one would mean another thing than the configuration does.
func (s *IPSource) Build(ctx caddy.Context) (*Ranges, error) {
	r := newReport()
	c := *s
	if s.URL != "" {
		setDefault(&c.Timeout, defaultFirstWait)
	}
	c.check(r)
	b := c.list().resolved(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	r.log(ctx.Logger())
	key, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	built := new(Ranges)
	v, err := built.holds.take(rangesKey{string(key)}, func() (caddy.Destructor, error) {
		return followRanges(ctx, b, time.Duration(c.Timeout))
	})
	if err != nil {
		return nil, err
	}
	built.ranges = v.(*ranges)
	return built, nil
}

// Get returns the ranges as they are now. They must not be changed.
func (r *Ranges) Get() []netip.Prefix { return *r.now.Load() }

// Close gives the list back. What still asks gets what there was.
func (r *Ranges) Close() error { return r.holds.release() }

// followRanges has the one list of a block followed, and waits for it.
func followRanges(ctx context.Context, b *SharedBlock, wait time.Duration) (*ranges, error) {
	logger := caddy.Log().Named("weir.ip_source")
	report := tellOnce(logger)
	var src lists.Source
	if len(b.Files) > 0 {
		src = b.Files[0].build(nil, report)
	} else {
		var err error
		if src, err = b.URLs[0].build(nil, filepath.Join(listDir(), "ranges"), report); err != nil {
			return nil, err
		}
	}
	r := new(ranges)
	first := make(chan struct{})
	take := func(p lists.Parsed) {
		if r.now.Swap(&p.Prefixes) == nil {
			close(first)
		}
	}
	parsed, err := src.Load()
	if err != nil && len(b.Files) > 0 {
		return nil, err
	}
	if err == nil && len(parsed.Prefixes) > 0 {
		take(parsed)
	}
	if r.now.Load() == nil && len(b.Files) > 0 {
		return nil, fmt.Errorf("%s: names no addresses", src.Name())
	}
	running, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		_ = src.Watch(running, func(p lists.Parsed, status lists.Status) {
			take(p)
			logger.Info("ranges read", zap.String("list", src.Name()), zap.Int("prefixes", status.Prefixes), zap.Int("rejected", status.Rejected))
		})
	}()
	if r.now.Load() != nil {
		return r, nil
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case <-first:
		return r, nil
	case <-patience.C:
		err = errors.New(src.Status().Error)
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	return nil, fmt.Errorf("%s: there is no list yet: %w", src.Name(), err)
}

// tellOnce logs what is wrong with a list, each thing once, and that nothing is any more.
func tellOnce(logger *zap.Logger) func(lists.Status) {
	last := ""
	return func(s lists.Status) {
		switch {
		case s.Error == last:
			return
		case s.Error != "":
			logger.Warn("a list of ranges cannot be read; the one before stays in force", zap.String("list", s.Name), zap.String("error", s.Error))
		default:
			logger.Info("a list of ranges is up to date again", zap.String("list", s.Name))
		}
		last = s.Error
	}
}
