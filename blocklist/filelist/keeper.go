// Package filelist keeps the shared block list in a file, for servers without a Redis; and a
// copy of a list that is kept elsewhere, for a start while that cannot be reached.
//
// The file is made of text lines, in blocks. The first block is the list at one version; each
// that follows is one change, appended and synced to the disk before it counts. A block ends with
// a line that holds a checksum of it, so that one which was cut off by a crash is seen and is
// as if it had never been written. When the changes outgrow the list they are folded into it: a new
// file takes the place of the old one, which is kept beside it under the same name and a tilde.
//
// A file that somebody, or a disk, has damaged counts up to the damage, see [Damage], and is kept beside the
// one that is written in its place, under the same name and `.broken`.
package filelist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/weirhq/caddy-weir/blocklist"
)

const (
	// pollEvery is how often the file is looked at for changes of other processes.
	pollEvery = time.Second
	// sweepEvery is how often what is over is taken out of what is told.
	sweepEvery = time.Minute
	// foldAt is the least bytes of changes that are folded into the list.
	foldAt = 1 << 20
	// mendAfter is how long a damaged file has to stay as it is before who knows the list writes it anew: it may be
	// about to be replaced by a good one.
	mendAfter = 2 * time.Second
)

// A Keeper keeps a list in a file. Make it by [Open]. Several keepers, in several processes of one
// machine, may keep one file: a lock beside it lets them write in turn. It is safe for
// concurrent use.
type Keeper struct {
	path     string
	now      func() time.Time
	patience time.Duration // how long another process is given to mend the file

	mu      sync.Mutex
	content blocklist.Content
	at      position
	whole   bool          // content was read to its end, or written
	damaged *damaged      // nil if the file is not
	changed chan struct{} // closed when content changes
}

// damaged is a damaged file as it was read.
type damaged struct {
	*Damage
	file  os.FileInfo
	since time.Time
}

// same reports whether a file is still as it was.
func same(was, is os.FileInfo) bool {
	return os.SameFile(was, is) && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime())
}

// position is how far the file was read.
type position struct {
	file os.FileInfo // nil if there was none
	// good is where the last whole block ends, size where the file did; first is where
	// the first block ends.
	good, size, first int64
}

// Open returns the keeper of a file, which need not be there. Nothing is read or written yet. now
// is the clock, nil for the system's.
func Open(path string, now func() time.Time) *Keeper {
	if now == nil {
		now = time.Now
	}
	return &Keeper{path: path, now: now, patience: mendAfter + 2*pollEvery, changed: make(chan struct{})}
}

// Close ends nothing: a keeper holds nothing open.
func (k *Keeper) Close() error { return nil }

// Path returns the file's path.
func (k *Keeper) Path() string { return k.path }

// Load implements [blocklist.Keeper]. A file that is not there is an empty list. One that is
// damaged leaves what was read last, else what stands before the damage, or what the file before it says
// if that is more, beside a [*Damage].
func (k *Keeper) Load(context.Context) (blocklist.Content, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.refresh()
	return k.content, err
}

// refresh reads what is new in the file. It is called with mu held.
func (k *Keeper) refresh() error {
	info, err := os.Stat(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		k.damaged = nil
		return k.restore(nil)
	}
	switch {
	case err != nil:
		return err
	case k.at.file != nil && same(k.at.file, info):
		return nil
	case k.damaged != nil && same(k.damaged.file, info):
		return k.damaged.Damage
	}
	k.damaged = nil
	from, content := int64(0), blocklist.Content{}
	// What was written again without becoming longer was not added to.
	if k.at.file != nil && os.SameFile(k.at.file, info) && info.Size() >= k.at.good && info.Size() != k.at.size {
		from, content = k.at.good, k.content
	}
	got, err := read(k.path, from, content)
	if err != nil && from > 0 {
		// The room of a file that was replaced may be given to the one after it.
		from = 0
		got, err = read(k.path, 0, blocklist.Content{})
	}
	var d *Damage
	if errors.As(err, &d) {
		k.damaged, k.at = &damaged{d, info, k.now()}, position{}
		k.salvage(got, d)
		return d
	}
	if err != nil {
		return k.restore(fmt.Errorf("%s: %w", k.path, err))
	}
	if from > 0 {
		got.first = k.at.first
	}
	k.whole = true
	k.at = position{info, got.good, info.Size(), got.first}
	if got.content.Version != k.content.Version || from == 0 {
		k.set(got.content)
	}
	return nil
}

// restore does without the file, which is not there, or cannot be read: what is in memory stays, else the
// file before it counts.
func (k *Keeper) restore(problem error) error {
	if k.content.Version == 0 {
		got, err := read(k.path+before, 0, blocklist.Content{})
		if err == nil && got.content.Version > 0 {
			k.set(got.content)
		}
	}
	if problem == nil && k.content.Version > 0 {
		problem = fmt.Errorf("%s: the list is not there any more; the last one known is in force", k.path)
	}
	k.at = position{}
	return problem
}

// set puts a content in force. It is called with mu held.
func (k *Keeper) set(c blocklist.Content) {
	k.content = c
	close(k.changed)
	k.changed = make(chan struct{})
}

// Apply implements [blocklist.Keeper].
func (k *Keeper) Apply(ctx context.Context, c blocklist.Change) (uint64, error) {
	now := k.now()
	if err := c.Prepare(now); err != nil {
		return 0, err
	}
	if err := foreign(k.path); err != nil {
		return 0, err
	}
	if err := k.letMend(ctx); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return 0, err
	}
	unlock, err := lockedfile.MutexAt(k.path + ".lock").Lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	broken := k.refresh()
	if broken != nil && k.content.Version == 0 && k.damaged == nil {
		// Nothing is known that could be written in its place.
		return 0, fmt.Errorf("%w; it is not written over: move it away to begin a new list", broken)
	}
	content := k.latest()
	if c.Undo != 0 {
		rec, err := k.record(c.Undo)
		if err != nil {
			return 0, err
		}
		if c, err = rec.Undoing(c, content.Text, now); err != nil {
			return 0, err
		}
	}
	next, rec, err := content.Apply(c)
	if err != nil {
		return 0, err
	}
	if k.at.file == nil || k.at.size-k.at.first > max(foldAt, k.at.first) {
		err = k.fold(now, content, broken != nil)
	}
	if err == nil {
		err = k.add(rec)
	}
	if err != nil {
		return 0, err
	}
	k.set(next)
	return next.Version, nil
}

// fold writes the list anew, without what is over. Its changes are kept in the trail.
func (k *Keeper) fold(now time.Time, content blocklist.Content, broken bool) error {
	if k.at.file != nil || k.damaged != nil {
		if err := k.keepTrail(); err != nil {
			return err
		}
	}
	keep := func() error { return os.Rename(k.path, k.path+before) }
	if broken {
		keep = func() error { return KeepBroken(k.path) }
	}
	if err := write(k.path, keep, content.Sweep(now)); err != nil {
		return err
	}
	k.damaged, k.whole = nil, true
	return k.measure(func(size int64) { k.at.first = size })
}

// add appends a change to the file.
func (k *Keeper) add(rec blocklist.Record) error {
	f, err := os.OpenFile(k.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// A block that a crash cut off is written over.
	err = f.Truncate(k.at.good)
	if err == nil {
		_, err = f.WriteAt(block(rec.String()+"\n"), k.at.good)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return k.measure(func(int64) {})
}

// measure notes how long the file is after it was written.
func (k *Keeper) measure(note func(size int64)) error {
	info, err := os.Stat(k.path)
	if err != nil {
		return err
	}
	k.at.file, k.at.good, k.at.size = info, info.Size(), info.Size()
	note(info.Size())
	return nil
}

// Watch implements [blocklist.Keeper]: changes of this process are told at once, those of others
// within about a second.
func (k *Keeper) Watch(ctx context.Context, changed func(blocklist.Content), trouble func(error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var told string
	first, swept := true, time.Now()
	var last blocklist.Content
	for {
		k.mu.Lock()
		err := k.refresh()
		if k.mendable() {
			k.mu.Unlock()
			err = k.mend()
			k.mu.Lock()
		}
		if time.Since(swept) > sweepEvery {
			k.content, swept = k.content.Sweep(k.now()), time.Now()
		}
		content, next := k.content, k.changed
		k.mu.Unlock()
		if first || content.Version != last.Version || len(content.Rules) != len(last.Rules) || content.Bans.Len() != last.Bans.Len() {
			changed(content)
			first, last = false, content
		}
		// After the content: that there is one does not mean that all is well.
		if text := fmt.Sprint(err); text != told && trouble != nil && (err != nil || told != "") {
			trouble(err)
			told = text
			if err == nil {
				told = ""
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		case <-tick.C:
		}
	}
}

var _ blocklist.Keeper = (*Keeper)(nil)
