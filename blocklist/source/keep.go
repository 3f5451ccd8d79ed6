package source

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// fewEntries is how many a list must have had for it to be suspicious that less
	// than half are left.
	fewEntries = 20
	// endsEvery is how often at most a list is reported anew because entries ended.
	endsEvery = time.Minute
)

// errWatched says that a source has a watcher already.
var errWatched = errors.New("is watched already")

// A keeper holds the list that a source has in use, and decides what may take its place.
type keeper struct {
	options Options
	// scrub takes secrets out of a text.
	scrub func(string) string

	// mu guards what follows.
	mu       sync.Mutex
	status   Status
	watching bool

	// What follows belongs to whoever loads: Load, or Watch once it runs.
	load sync.Mutex
	held held
}

// held is what a keeper remembers of the list in use.
type held struct {
	any      bool
	digest   [32]byte // of its text
	cover    cover    // of what was left of it
	steady   int      // entries that have no end
	ends     []int64  // of those that have one, ascending
	list     *Parsed  // kept only if entries end
	reported time.Time
}

// live is how many entries have not ended.
func (h *held) live(now time.Time) int {
	n, _ := slices.BinarySearch(h.ends, now.UnixNano()+1)
	return h.steady + len(h.ends) - n
}

func (k *keeper) init(o Options, where string, scrub func(string) string) {
	if o.Name == "" {
		o.Name = where
	}
	k.options, k.scrub = o, scrub
	k.status = Status{Name: o.Name, Where: where, Format: o.Format}
}

// Name is what the source is called.
func (k *keeper) Name() string { return k.options.Name }

// Status tells how the source is.
func (k *keeper) Status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.Lines = slices.Clone(s.Lines)
	return s
}

// watch marks the source as watched; done ends that.
func (k *keeper) watch() (done func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watching {
		return nil, fmt.Errorf("source %q: %w", k.options.Name, errWatched)
	}
	k.watching = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.watching = false
	}, nil
}

// judge refuses a list that is suspiciously short beside the one in use.
func (k *keeper) judge(p *Parsed, now time.Time) error {
	had, has := k.held.live(now), p.Len()
	switch {
	case k.options.AcceptShrunken:
	case has == 0 && had > 0:
		return fmt.Errorf("%w, and had %d entries: it stays as it was", ErrEmpty, had)
	case has == 0 && p.Format != CrowdSec && p.Format != CrowdSecCSV && p.Format != IPSet:
		// Only lists whose entries come and go are empty on a good day.
		return ErrEmpty
	case had >= fewEntries && has*2 < had:
		return fmt.Errorf("has only %d entries, and had %d: it stays as it was", has, had)
	}
	return nil
}

// accept puts a list in the place of the one in use, unless it is not to be trusted. It
// returns the list as it is to be reported, and whether it differs from the one before.
func (k *keeper) accept(p Parsed, digest [32]byte, now time.Time) (Parsed, bool, error) {
	p.Rejected = slices.Clone(p.Rejected)
	for i := range p.Rejected {
		p.Rejected[i].Text, p.Rejected[i].Why = k.scrub(p.Rejected[i].Text), k.scrub(p.Rejected[i].Why)
	}
	alive(&p, now)
	if err := k.judge(&p, now); err != nil {
		return Parsed{}, false, err
	}
	whole := p
	k.clean(&p)
	covered := coverOf(p.Prefixes)
	if err := covered.judge(k.held.cover, k.held.any, k.options.MaxCover, k.options.AcceptGrown); err != nil {
		return Parsed{}, false, err
	}
	same := k.held.any && k.held.digest == digest && p.Until == nil && k.held.list == nil
	k.hold(&whole, digest)
	k.held.cover = covered
	if !same {
		k.held.reported = now
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.status
	s.Format, s.Prefixes, s.Agents = p.Format, len(p.Prefixes), len(p.Agents)
	s.Stripped, s.Rejected, s.Lines = len(p.Stripped), p.RejectedCount, p.Rejected
	return p, !same, nil
}

// hold remembers what is needed of a list to judge the next one.
func (k *keeper) hold(p *Parsed, digest [32]byte) {
	h := held{any: true, digest: digest, cover: k.held.cover, steady: p.Len() - len(p.Until), reported: k.held.reported}
	if p.Until != nil {
		for _, until := range p.Until {
			h.ends = append(h.ends, until.UnixNano())
		}
		slices.Sort(h.ends)
		list := *p
		h.list = &list
	}
	k.held = h
}

// clean cuts out what the list must not block.
func (k *keeper) clean(p *Parsed) {
	var protected []netip.Prefix
	if !k.options.KeepPrivate {
		protected = bogons
	}
	if k.options.Protected != nil {
		protected = slices.Concat(protected, k.options.Protected())
	}
	guards := ranges(protected)
	touched := slices.ContainsFunc(p.Prefixes, func(prefix netip.Prefix) bool {
		in, whole := overlapping(prefix, guards)
		return whole || len(in) > 0
	})
	if !touched {
		return // as most lists are, however long
	}
	var entries []entry
	entries, p.Stripped = strip(p.entries(), guards)
	p.set(entries)
}

// alive drops the entries that have ended.
func alive(p *Parsed, now time.Time) {
	if p.Until == nil {
		return
	}
	entries := p.entries()
	p.set(slices.DeleteFunc(entries, func(e entry) bool { return e.until <= now.UnixNano() }))
}

// ended returns the list without the entries that have ended since it was last reported,
// if there are any and that was not a moment ago.
func (k *keeper) ended(now time.Time) (Parsed, bool) {
	if at := k.nextEnd(); at.IsZero() || now.Before(at) {
		return Parsed{}, false
	}
	p := *k.held.list
	alive(&p, now)
	k.hold(&p, k.held.digest)
	k.held.reported = now
	k.clean(&p)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Prefixes, k.status.Stripped = len(p.Prefixes), len(p.Stripped)
	return p, true
}

// nextEnd is when the list is to be reported anew since entries will have ended; zero
// for never.
func (k *keeper) nextEnd() time.Time {
	if len(k.held.ends) == 0 {
		return time.Time{}
	}
	at := time.Unix(0, k.held.ends[0])
	if soonest := k.held.reported.Add(endsEvery); at.Before(soonest) {
		return soonest
	}
	return at
}

// good notes that a try found the list, which was up to date at some time.
func (k *keeper) good(tried, upToDate time.Time) {
	k.mu.Lock()
	k.status.Try, k.status.Success = tried, upToDate
	k.status.Error, k.status.Failures = "", 0
	k.mu.Unlock()
}

// bad notes that a try failed, and returns the error as it may be shown.
func (k *keeper) bad(tried time.Time, err error) error {
	shown := errors.New(k.scrub(err.Error()))
	k.mu.Lock()
	k.status.Try, k.status.Error = tried, shown.Error()
	k.status.Failures++
	k.mu.Unlock()
	return fmt.Errorf("source %q: %w", k.options.Name, shown)
}

// report tells who wants to know how the source is.
func (k *keeper) report() {
	if k.options.Report != nil {
		k.options.Report(k.Status())
	}
}

// until waits for a moment, and is false if ctx ends before.
func until(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
