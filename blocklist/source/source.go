// Package source reads block lists that others keep: files on disk and lists on the
// web, in the formats in which such lists come.
//
// [Parse] reads one list. [File] and [URL] make sources of lists, which are watched: a
// source that is broken, empty, suddenly much shorter than before, or that suddenly covers far more addresses,
// keeps what it had, and says so in its [Status]. Addresses that must never be blocked are cut out of every
// list, see [Strip]. Nothing in here looks at a request: all of it happens off the path.
package source

import (
	"context"
	"net/netip"
	"time"
)

// A Source is one list that changes. It is safe for concurrent use.
type Source interface {
	// Name is what the source is called in logs and metrics, without secrets.
	Name() string
	// Load reads what is at hand without a network: the file, or the copy of the last
	// good download. Without a directory for copies, or with none in it, a download
	// has nothing at hand; that is an empty list and no error.
	Load() (Parsed, error)
	// Watch reports the list whenever it differs from what Load or Watch reported last,
	// until ctx ends; it then returns nil. The first report comes as soon as there
	// is a list. Calls of changed never overlap; the source waits for them, and what they
	// are given must not be changed. At most one Watch may run at a time: a second one is
	// an error.
	Watch(ctx context.Context, changed func(Parsed, Status)) error
	// Status tells how the source is.
	Status() Status
}

// Options are what all sources have in common. The zero value is ready to use.
type Options struct {
	// Name is what the source is called. Default: its path, or its address without
	// anything secret.
	Name string
	// Format of the list. Default: Auto.
	Format Format
	// Limits of what is read from it. At is set by the source.
	Limits Limits
	// KeepPrivate lets a list name addresses that are on no public network: loopback,
	// private, link-local. Default: they are cut out, see [Bogons].
	KeepPrivate bool
	// Protected returns ranges that no list may block: own addresses, trusted
	// proxies, admin networks. It is asked whenever a list is read. Default: none.
	Protected func() []netip.Prefix
	// AcceptShrunken takes a list that is empty, or less than half as long as the one
	// before. Default: the one before is kept.
	AcceptShrunken bool
	// MaxCover is the most that a list covers, after what is cut out of it, in networks of /8 of IPv4, and in
	// networks of /19 of IPv6; [AnyCover] is no bound. Default: [DefaultMaxCover].
	MaxCover int
	// AcceptGrown takes a list that covers more than one such network, and more than twice as much as the
	// one before. Default: the one before is kept.
	AcceptGrown bool
	// Report is told how the source is after each try, good or bad, by the goroutine of
	// Watch, which waits for it; it must not call Load. Default: nobody is told.
	Report func(Status)
}

// Status tells how a source is. All of it may be shown: there is nothing secret in it.
type Status struct {
	// Name is that of the source.
	Name string
	// Where the list comes from: a path, or an address without user, password and query.
	Where string
	// Format in which the list was read; Auto as long as none was.
	Format Format
	// Prefixes, Agents, Stripped, Rejected are how many of each the list in use has.
	Prefixes, Agents, Stripped, Rejected int
	// Lines are the first of those rejected.
	Lines []Line
	// FromCopy says that the list in use is the copy of an earlier download, made before
	// this source was.
	FromCopy bool
	// Success is when the list in use was last known to be up to date, Try when the source
	// was last read or asked, Next when it will be asked again; zero for never. For files
	// Success is when the file was last written, and Next is always zero: they are looked
	// at each second.
	Success, Try, Next time.Time
	// Error is what was wrong with the last try; empty if nothing was.
	Error string
	// Failures is how many tries in a row went wrong.
	Failures int
}

// Age is how long ago the list in use was known to be up to date; 0 if there is none.
func (s Status) Age(now time.Time) time.Duration {
	if s.Success.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.Success))
}
