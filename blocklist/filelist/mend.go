package filelist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/weirhq/caddy-weir/blocklist"
)

// mostBroken is how many damaged files are kept.
const mostBroken = 99

// KeepBroken gives a damaged file another name, under which it stays for people to look at: its own with `.broken`
// behind it, or `.broken.2` and so on where there are such files already; the last of 99 is replaced. The file is still there
// under its own name too where the file system lets one file have two.
func KeepBroken(path string) error {
	for n := 1; ; n++ {
		kept := path + ".broken"
		if n > 1 {
			kept += "." + strconv.Itoa(n)
		}
		err := os.Link(path, kept)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return err
		case n == mostBroken:
			return os.Rename(path, kept)
		}
		if _, err := os.Lstat(kept); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(path, kept) // there are no links here
		}
	}
}

// foreign is the error of a file that nothing shows to be a list: a path that was mistyped must not cost
// anybody a file. A list begins as one, or has files beside it that only lists have.
func foreign(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // whoever reads it will tell
	}
	defer f.Close()
	begin := make([]byte, len(listWord))
	if n, _ := f.Read(begin); n == 0 || string(begin[:n]) == listWord {
		return nil
	}
	for _, beside := range []string{".lock", before, trailName} {
		if _, err := os.Stat(path + beside); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: is no list, and is not written over: move it away to begin one there", path)
}

// salvage puts in force what is left of a damaged list, unless all of it was read before. It is called with
// mu held.
func (k *Keeper) salvage(found reading, d *Damage) {
	content := found.content
	d.remains = beginning
	if old, _ := read(k.path+before, 0, blocklist.Content{}); old.content.Version > content.Version {
		content, d.remains = old.content, older
	}
	if k.whole || k.content.Version > content.Version {
		d.remains = all
		return
	}
	if d.Version = content.Version; d.Version == 0 {
		d.remains = nothing
	}
	k.set(content)
}

// latest returns the content, of a damaged list with a version that no change had: a number
// stands for one change, also if that is lost. It is called with mu held.
func (k *Keeper) latest() blocklist.Content {
	content := k.content
	if k.damaged != nil {
		content.Version = max(content.Version, k.damaged.LostTo)
		if last, err := k.trail(1); err == nil && len(last) > 0 {
			content.Version = max(content.Version, last[0].Version)
		}
	}
	return content
}

// mendable reports whether the file is to be written anew by who has all of the list. One whose checksum is
// right is left to whoever wrote it, until the next change. It is called with mu held.
func (k *Keeper) mendable() bool {
	d := k.damaged
	return d != nil && k.whole && !d.Damage.whole && k.now().Sub(d.since) >= mendAfter
}

// letMend lets another process, which may have all of the list, write the file anew that was damaged a moment
// ago: what this one has would take its place.
func (k *Keeper) letMend(ctx context.Context) error {
	for end := time.Now().Add(k.patience); ; {
		k.mu.Lock()
		_ = k.refresh()
		d, all := k.damaged, k.whole
		k.mu.Unlock()
		now := time.Now()
		if d == nil || all || d.Damage.whole || now.After(end) || now.Sub(d.file.ModTime()) > k.patience {
			return nil
		}
		wait := time.NewTimer(pollEvery / 4)
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-wait.C:
		}
	}
}

// mend writes a damaged file anew.
func (k *Keeper) mend() error {
	unlock, err := lockedfile.MutexAt(k.path + ".lock").Lock()
	if err != nil {
		return err
	}
	defer unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	problem := k.refresh()
	if !k.mendable() {
		return problem // somebody else was first
	}
	content := k.latest()
	if err := k.fold(k.now(), content, true); err != nil {
		return fmt.Errorf("%w, and the file cannot be written anew: %w", problem, err)
	}
	k.set(content)
	return nil
}
