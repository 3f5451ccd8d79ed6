package source

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// lookEvery is how often a file is looked at.
const lookEvery = time.Second

// A file is a list on disk.
type file struct {
	keeper
	path string
	// seen is the file as it was read last, next as it was when it was found to have
	// changed; nil for never. They belong to whoever loads.
	seen, next os.FileInfo
}

// File makes a source of a file. It is looked at every second, and read once it has
// changed and then stayed as it is for a second, so that a file which is just being
// written is not read by halves; who replaces it by renaming another to it is always
// safe. What makes the source keep the list it had is that the file is gone, has no
// byte in it or a web page, that fewer than half of at least 20 entries are left, and all that
// [Parse] calls an error. To empty a list on purpose set AcceptShrunken.
//
// Times that the list gives as durations count from when the file was written.
func File(path string, o Options) Source {
	f := &file{path: path}
	f.init(o, path, func(text string) string { return text })
	return f
}

// Load reads the file. If it cannot be read, is not there or is no list that is an error;
// the source can be watched all the same.
func (f *file) Load() (Parsed, error) {
	f.load.Lock()
	defer f.load.Unlock()
	p, _, err := f.read(time.Now())
	return p, err
}

// read reads the file as it is.
func (f *file) read(now time.Time) (p Parsed, changed bool, err error) {
	p, digest, info, err := f.parse()
	if info != nil {
		f.seen = info
	}
	if err == nil {
		p, changed, err = f.accept(p, digest, now)
	}
	if err != nil {
		return Parsed{}, false, f.bad(now, err)
	}
	f.good(now, info.ModTime())
	return p, changed, nil
}

// parse opens and reads the file; info is nil if there is none.
func (f *file) parse() (p Parsed, digest [32]byte, info os.FileInfo, err error) {
	r, err := os.Open(f.path)
	if err != nil {
		if _, gone := os.Stat(f.path); gone != nil {
			err = gone // in the words of whoever looks again, so that it is told once
		}
		return p, digest, nil, err
	}
	defer r.Close()
	if info, err = r.Stat(); err != nil {
		return p, digest, nil, err
	}
	limits := f.options.Limits
	limits.At = info.ModTime()
	sum := sha256.New()
	p, err = parse(io.TeeReader(r, sum), f.options.Format, limits, "", f.path)
	sum.Sum(digest[:0])
	return p, digest, info, err
}

// Watch looks at the file until ctx ends.
func (f *file) Watch(ctx context.Context, changed func(Parsed, Status)) error {
	done, err := f.watch()
	if err != nil {
		return err
	}
	defer done()
	for {
		f.look(changed)
		if !until(ctx, time.Now().Add(lookEvery)) {
			return nil
		}
	}
}

// look reads the file if it has changed, and reports what is new.
func (f *file) look(changed func(Parsed, Status)) {
	f.load.Lock()
	defer f.load.Unlock()
	now := time.Now()
	p, differs, tried := f.settled(now)
	if !differs {
		p, differs = f.ended(now)
	}
	if differs {
		changed(p, f.Status())
	}
	if tried {
		f.report()
	}
}

// settled reads the file if it has changed and the change is over. Tried says that
// there is something to report: a file that is gone is that only once.
func (f *file) settled(now time.Time) (p Parsed, differs, tried bool) {
	info, err := os.Stat(f.path)
	if err != nil {
		f.seen, f.next = nil, nil
		if f.Status().Error == err.Error() {
			return Parsed{}, false, false
		}
		_ = f.bad(now, err) // which the status tells
		return Parsed{}, false, true
	}
	if alike(info, f.seen) {
		f.next = nil
		return Parsed{}, false, false
	}
	// A source that has no list yet takes the file as it is.
	if f.held.any && !alike(info, f.next) {
		f.next = info
		return Parsed{}, false, false
	}
	f.next = nil
	p, differs, err = f.read(now)
	return p, differs && err == nil, true
}

// alike reports whether a file is the one that it was.
func alike(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
