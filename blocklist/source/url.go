package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

const (
	// DefaultRefresh is how often a list is downloaded.
	DefaultRefresh = 24 * time.Hour
	// DefaultTimeout is how long a download may take.
	DefaultTimeout = time.Minute

	// firstSpread is over how long the first downloads of many nodes are spread.
	firstSpread = 2 * time.Second
	// unreached and answered are the first waits after a server that could not be
	// reached, and one that answered something else than a list. They double with each
	// failure, up to longestWait.
	unreached   = 5 * time.Second
	answered    = time.Minute
	longestWait = time.Hour
	// patience is the longest that a server may have us wait.
	patience = 7 * 24 * time.Hour
)

// Download is how a list is fetched. The zero value is ready to use.
type Download struct {
	// Refresh is how often to ask for the list, at random up to a tenth later. Default:
	// 24h. The least is 5m; 1h for spamhaus.org and 5h for abuseipdb.com, which stop
	// answering who asks more often; 1s for this machine and private addresses.
	Refresh time.Duration
	// Timeout is how long one download may take. Default: 1m.
	Timeout time.Duration
	// Header is sent along, to the list's own host only. Its values are kept secret.
	Header http.Header
	// Dir is where copies of good downloads are kept, so that a restart has a list at
	// once and need not ask again too soon. Several sources may share it. Default: none.
	Dir string
	// UserAgent is who we say we are. Default: Weir, with its address.
	UserAgent string

	// transport is used by tests.
	transport http.RoundTripper
}

// A download is a list on the web.
type download struct {
	keeper
	address *url.URL
	how     Download
	client  *http.Client
	shelf   shelf
	floor   time.Duration

	// What follows belongs to whoever loads.
	record record
	loaded bool
}

// URL makes a source of a list on the web, by http or https. It asks politely: as often
// as Refresh says, later if the server says so by Cache-Control or Retry-After, with what
// it was told of the list's version (ETag, Last-Modified), and after failures less and
// less often. A download that is not whole, is a web page, empty, much shorter than
// before (see Options.AcceptShrunken) or beyond the Limits leaves the list as it was.
//
// The error says what is wrong with the arguments; nothing is fetched yet.
func URL(address string, how Download, o Options) (Source, error) {
	u, err := checkAddress(address)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(how.Header); err != nil {
		return nil, err
	}
	if err := o.Limits.Check(); err != nil {
		return nil, err
	}
	d := &download{address: u, how: how, floor: floor(u.Hostname()), shelf: newShelf(how.Dir, address, how.Header)}
	if d.how.Refresh == 0 {
		d.how.Refresh = DefaultRefresh
	}
	if d.how.Refresh < d.floor {
		return nil, fmt.Errorf("refresh: must be at least %s for %s, got %s", d.floor, u.Hostname(), d.how.Refresh)
	}
	if d.how.Timeout == 0 {
		d.how.Timeout = DefaultTimeout
	}
	if d.how.Timeout < 0 {
		return nil, fmt.Errorf("timeout: must be positive, got %s", d.how.Timeout)
	}
	if d.how.UserAgent == "" {
		d.how.UserAgent = "Weir (+https://github.com/weirhq/caddy-weir)"
	}
	d.client = newClient(d.how)
	d.init(o, public(u), scrubber(u, how.Header))
	return d, nil
}

// Load reads the copy of the last good download, if there is one. That it is damaged is an
// error; the list is then fetched anew.
func (d *download) Load() (Parsed, error) {
	d.load.Lock()
	defer d.load.Unlock()
	p, err := d.restore(time.Now())
	return p, err
}

// restore takes up what the shelf holds.
func (d *download) restore(now time.Time) (Parsed, error) {
	if !d.loaded {
		d.loaded = true
		d.record = d.shelf.record()
		d.record.Where = d.Status().Where
	}
	p, err := d.readCopy(now)
	if err != nil && !d.held.any {
		// What is not at hand must be sent whole.
		d.record.Text, d.record.ETag, d.record.LastModified = "", "", ""
		d.record.Fetched, d.record.Checked = time.Time{}, time.Time{}
	}
	switch {
	case errors.Is(err, errNoCopy):
		return Parsed{}, nil
	case err != nil:
		return Parsed{}, d.bad(now, fmt.Errorf("copy of the last download: %w", err))
	}
	d.mu.Lock()
	d.status.FromCopy, d.status.Success = true, d.record.Checked
	d.mu.Unlock()
	return p, nil
}

// errNoCopy says that there is no copy, which is no fault.
var errNoCopy = errors.New("there is none")

// readCopy reads the text of the record.
func (d *download) readCopy(now time.Time) (Parsed, error) {
	text, err := d.shelf.open(d.record)
	if err != nil {
		return Parsed{}, errNoCopy
	}
	defer text.Close()
	sum := &draft{sum: newSum()}
	limits := d.options.Limits
	limits.At = d.record.Fetched
	p, err := parse(io.TeeReader(text, sum), d.options.Format, limits, d.record.ContentType, d.address.Path)
	// What the parser did not read counts for the sum as well.
	if _, rest := io.Copy(sum, text); rest != nil {
		return Parsed{}, rest
	}
	if digest := sum.digest(); d.record.SHA256 != hexOf(digest) {
		return Parsed{}, errors.New("is damaged")
	}
	if err != nil {
		return Parsed{}, err
	}
	p, _, err = d.accept(p, sum.digest(), now)
	return p, err
}

// Watch fetches the list until ctx ends.
func (d *download) Watch(ctx context.Context, changed func(Parsed, Status)) error {
	done, err := d.watch()
	if err != nil {
		return err
	}
	defer done()
	for next := d.begin(changed); until(ctx, next); {
		next = d.step(ctx, changed)
	}
	return nil
}

// begin reports the copy, if nobody has loaded it, and returns when there is
// something to do.
func (d *download) begin(changed func(Parsed, Status)) time.Time {
	d.load.Lock()
	defer d.load.Unlock()
	now := time.Now()
	if !d.loaded {
		if p, err := d.restore(now); err != nil {
			d.report()
		} else if d.held.any {
			changed(p, d.Status())
		}
	}
	return d.plan(d.first(now))
}

// first is when to ask for the first time: at once, a little apart from other nodes,
// unless what happened before this source was made says later.
func (d *download) first(now time.Time) time.Time {
	next := now.Add(spread(firstSpread))
	later := func(t time.Time) {
		if t.After(next) {
			next = t
		}
	}
	r := &d.record
	if d.held.any && r.Failures == 0 {
		later(r.Checked.Add(d.interval()))
	}
	if !r.Tried.IsZero() {
		later(r.Tried.Add(d.floor))
	}
	later(r.NotBefore)
	// A clock that was wrong must not keep us waiting.
	if latest := now.Add(max(patience, 2*d.how.Refresh)); next.After(latest) {
		return latest
	}
	return next
}

// interval is how long to wait after a good try.
func (d *download) interval() time.Duration { return d.how.Refresh + spread(d.how.Refresh/10) }

// step does what is due and returns when there is more to do.
func (d *download) step(ctx context.Context, changed func(Parsed, Status)) time.Time {
	d.load.Lock()
	defer d.load.Unlock()
	next := d.Status().Next
	if now := time.Now(); now.Before(next) {
		if p, some := d.ended(now); some {
			changed(p, d.Status())
		}
		return d.plan(next)
	}
	p, differs, wait := d.try(ctx)
	if ctx.Err() != nil {
		return next
	}
	next = d.plan(time.Now().Add(wait))
	if differs {
		changed(p, d.Status())
	}
	d.report()
	return next
}

// plan notes when the server is asked next, and returns when there is something to do.
func (d *download) plan(ask time.Time) time.Time {
	d.mu.Lock()
	d.status.Next = ask
	d.mu.Unlock()
	if end := d.nextEnd(); !end.IsZero() && end.Before(ask) {
		return end
	}
	return ask
}

// try asks the server once, and returns how long to wait until the next time.
func (d *download) try(ctx context.Context) (p Parsed, differs bool, wait time.Duration) {
	now := time.Now()
	// Should we die meanwhile, and be started again and again, the server is spared.
	d.record.Tried, d.record.NotBefore = now, time.Time{}
	d.save()
	p, differs, fresh, err := d.fetch(ctx, now)
	switch {
	case ctx.Err() != nil:
		return Parsed{}, false, 0
	case err != nil:
		_ = d.bad(now, err) // which the status tells
		d.record.Failures++
		wait = d.backOff(err)
		d.record.NotBefore = now.Add(wait)
	default:
		d.record.Failures = 0
		fresh = min(fresh, patience)
		wait = max(d.interval(), fresh)
		d.record.NotBefore = now.Add(fresh)
	}
	d.save()
	return p, differs, wait
}

// save writes the record down.
func (d *download) save() {
	if err := d.shelf.save(d.record); err != nil {
		d.warn(err)
	}
}

// backOff is how long to wait after a failure.
func (d *download) backOff(err error) time.Duration {
	wait, refused := unreached, (*refusal)(nil)
	if !errors.As(err, &refused) {
		refused = &refusal{}
	} else {
		wait = answered
	}
	longest := min(longestWait, d.how.Refresh)
	for n := d.record.Failures; n > 1 && wait < longest; n-- {
		wait *= 2
	}
	wait = max(min(wait, longest), d.floor, min(refused.wait, patience))
	return wait + spread(min(wait/4, 10*time.Minute))
}

// warn notes that what should outlive us could not be saved.
func (d *download) warn(err error) {
	d.mu.Lock()
	if d.status.Error == "" {
		d.status.Error = d.scrub(fmt.Sprintf("could not be saved: %s", err))
	}
	d.mu.Unlock()
}

// spread is a random time below most, so that many do not do the same at once.
func spread(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
