package config

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	lists "github.com/weirhq/caddy-weir/blocklist/source"
)

// A rangeFile is a file with the ranges of an aggregator, as it stands.
type rangeFile struct {
	source lists.Source
	logger *zap.Logger
	ranges atomic.Pointer[blocklist.Prefixes]

	mu       sync.Mutex
	reported string // the last error that was logged
}

// openRanges reads a file for the first time. It has to be there: an aggregator that is not
// recognised is refused what it may have.
func openRanges(path, name string, logger *zap.Logger) (*rangeFile, error) {
	at, err := caddy.NewReplacer().ReplaceOrErr(path, true, true)
	if err != nil {
		return nil, fmt.Errorf("file %q: %w", path, err)
	}
	f := &rangeFile{logger: logger.With(zap.String("aggregator", name), zap.String("file", at))}
	f.source = lists.File(at, lists.Options{KeepPrivate: true, AcceptGrown: true, Report: f.report})
	parsed, err := f.source.Load()
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	f.take(parsed, f.source.Status())
	return f, nil
}

// Contains implements [aggregator.Ranges].
func (f *rangeFile) Contains(a netip.Addr) bool { return f.ranges.Load().Contains(a) }

func (f *rangeFile) take(parsed lists.Parsed, status lists.Status) {
	f.ranges.Store(blocklist.NewPrefixes(parsed.Prefixes))
	if len(parsed.Prefixes) == 0 {
		f.logger.Warn("a file of an aggregator's ranges holds none")
	}
	for _, line := range status.Lines {
		f.logger.Warn("a line of an aggregator's ranges was not taken",
			zap.Int("line", line.Number), zap.String("text", line.Text), zap.String("why", line.Why))
	}
}

// follow reads the file whenever it has changed, until ctx is done.
func (f *rangeFile) follow(ctx context.Context) {
	err := f.source.Watch(ctx, func(parsed lists.Parsed, status lists.Status) {
		f.take(parsed, status)
		f.logger.Info("ranges of an aggregator read", zap.Int("prefixes", status.Prefixes), zap.Int("rejected", status.Rejected))
	})
	if err != nil && ctx.Err() == nil {
		f.report(lists.Status{Error: err.Error()})
	}
}

// report logs what is wrong with the file, each thing once, and that nothing is any more.
func (f *rangeFile) report(status lists.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if status.Error == f.reported {
		return
	}
	f.reported = status.Error
	if status.Error == "" {
		f.logger.Info("the ranges of an aggregator are up to date again")
		return
	}
	f.logger.Warn("the ranges of an aggregator cannot be read; those before stay in force", zap.String("error", status.Error))
}
