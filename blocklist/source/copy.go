package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A record is what is kept on disk about a download, beside its text. The text has a
// name of its own for each version, so that a record is always whole: it names the text
// that it is about.
type record struct {
	// Where the list comes from, for people; without secrets.
	Where string `json:"where"`
	// Text is the name of the file with the list, empty if there is none, SHA256 its sum.
	Text   string `json:"text,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	// What the server said about the list.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
	ContentType  string `json:"content_type,omitempty"`
	// Fetched is when the text was downloaded, Checked when the server last said that it
	// is up to date, Tried when it was last asked.
	Fetched time.Time `json:"fetched,omitzero"`
	Checked time.Time `json:"checked,omitzero"`
	Tried   time.Time `json:"tried,omitzero"`
	// NotBefore is when the server may be asked again, as far as it said so or failed,
	// Failures how many tries went wrong since the last good one.
	NotBefore time.Time `json:"not_before,omitzero"`
	Failures  int       `json:"failures,omitempty"`
}

// A shelf is where the copy of one download lies. The zero value keeps nothing.
type shelf struct {
	dir string // empty: nowhere
	id  string
}

// newShelf finds the place of an address. With another header it may be another list.
func newShelf(dir, address string, h http.Header) shelf {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", address)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(sum, "%q%q", http.CanonicalHeaderKey(name), h[name])
	}
	return shelf{dir: dir, id: hex.EncodeToString(sum.Sum(nil)[:10])}
}

func (s shelf) path(name string) string { return filepath.Join(s.dir, name) }

// record reads the record; the zero record if there is none, or none that can be read.
func (s shelf) record() record {
	if s.dir == "" {
		return record{}
	}
	var r record
	text, err := os.ReadFile(s.path(s.id + ".json"))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return record{}
	}
	// The name is ours, unless somebody changed the record.
	if r.Text != filepath.Base(r.Text) || !strings.HasPrefix(r.Text, s.id+"-") {
		r.Text = ""
	}
	return r
}

// save writes the record in one step.
func (s shelf) save(r record) error {
	if s.dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	d := s.draft()
	defer d.drop()
	_, _ = d.Write(append(text, '\n'))
	return d.keep(s.path(s.id + ".json"))
}

// open opens the text of a record.
func (s shelf) open(r record) (io.ReadCloser, error) {
	if s.dir == "" || r.Text == "" {
		return nil, os.ErrNotExist
	}
	return os.Open(s.path(r.Text))
}

// sweep removes all texts of this address but the one that is kept, and what writers
// that died have left.
func (s shelf) sweep(kept string) {
	if s.dir == "" {
		return
	}
	names, err := filepath.Glob(s.path(s.id + "-*"))
	if err != nil {
		return
	}
	for _, name := range names {
		if filepath.Base(name) != kept {
			_ = os.Remove(name) // next time, then
		}
	}
}

// A draft is a file that does not count yet. Writing to it never fails: what cannot be
// written is still summed, and keep tells what went wrong.
type draft struct {
	shelf shelf
	file  *os.File // nil: nothing is kept
	sum   hash.Hash
	err   error
}

// draft begins a file.
func (s shelf) draft() *draft {
	d := &draft{shelf: s, sum: newSum()}
	if s.dir == "" {
		return d
	}
	if d.err = os.MkdirAll(s.dir, 0o700); d.err == nil {
		d.file, d.err = os.CreateTemp(s.dir, s.id+"-*.draft") // readable by nobody else
	}
	return d
}

// Write writes to the file.
func (d *draft) Write(p []byte) (int, error) {
	d.sum.Write(p)
	if d.file != nil && d.err == nil {
		_, d.err = d.file.Write(p)
	}
	return len(p), nil
}

// digest is that of what was written.
func (d *draft) digest() (sum [32]byte) {
	d.sum.Sum(sum[:0])
	return sum
}

// keepText gives the file the name of a text and returns that.
func (d *draft) keepText() (string, error) {
	if d.shelf.dir == "" {
		return "", nil
	}
	sum := d.digest()
	name := d.shelf.id + "-" + hex.EncodeToString(sum[:6]) + ".list"
	return name, d.keep(d.shelf.path(name))
}

// keep puts the file in its place, for good.
func (d *draft) keep(path string) error {
	if d.err != nil {
		return d.err
	}
	if err := d.file.Sync(); err != nil {
		return err
	}
	if err := d.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(d.file.Name(), path); err != nil {
		return err
	}
	d.file = nil
	// Should the machine lose the new name, the list is fetched once more.
	if dir, err := os.Open(d.shelf.dir); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

// drop removes the file, unless it was kept.
func (d *draft) drop() {
	if d.file == nil {
		return
	}
	_ = d.file.Close()
	_ = os.Remove(d.file.Name()) // else it is swept away later
	d.file = nil
}
