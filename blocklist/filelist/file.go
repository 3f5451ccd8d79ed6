package filelist

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// before ends the name of the file that was there before the last one was written.
const before = "~"

// The first words of lines that are not those of a change. A block begins with listWord (the
// first) or the head of a record, and ends with endWord and the checksum of its bytes.
const (
	listWord = "list "
	endWord  = "end "
)

// castagnoli is the checksum of blocks.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block returns the lines of a block with its end.
func block(lines string) []byte {
	return fmt.Appendf([]byte(lines), "%s%08x\n", endWord, crc32.Checksum([]byte(lines), castagnoli))
}

// reading is what was read of a file.
type reading struct {
	content     blocklist.Content
	first, good int64 // where the first block ends, and the last that is whole
	written     time.Time
	records     []string // the texts of the changes, if they are wanted
}

// read reads a file from a place between two blocks, where content was what it said. What does
// not end at the end of the file is left out: it was never written to its end. Anything else
// that is wrong is a [*Damage], beside what stands before it.
func read(path string, from int64, content blocklist.Content) (reading, error) {
	return scan(path, from, content, false)
}

func scan(path string, from int64, content blocklist.Content, wantRecords bool) (reading, error) {
	f, err := os.Open(path)
	if err != nil {
		return reading{}, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return reading{}, err
	}
	out := reading{content: content, good: from}
	in := &lines{in: bufio.NewReaderSize(f, 1<<16), at: from}
	for {
		b, err := in.block()
		switch {
		case errors.Is(err, io.EOF) && out.good == 0:
			err = errNotWhole
		case errors.Is(err, io.EOF):
			return out, nil
		case err == nil:
			err = out.take(b, wantRecords)
		}
		var reading *fs.PathError
		if errors.As(err, &reading) {
			return out, err // of the disk, and not of what it holds
		}
		if err != nil {
			return out, in.damage(path, b, err, out.content.Version)
		}
		out.good = in.at
		if out.first == 0 && from == 0 {
			out.first = out.good
		}
	}
}

// lines are those of a file, and where it is read.
type lines struct {
	in   *bufio.Reader
	at   int64 // bytes read
	read int   // lines read
}

// A rawBlock is a block as it was read. Its head is the first line.
type rawBlock struct {
	head  string
	lines []string // without those of what takes a change back
	undo  []string
	at    int64 // where it begins
	line  int   // the number of its first line, from 1
	whole bool  // its checksum is right
}

func (l *lines) next() (string, error) {
	line, err := l.in.ReadString('\n')
	if err == nil {
		l.at += int64(len(line))
		l.read++
	}
	return line, err // io.EOF, also in the middle of a line
}

// block reads a block. It returns io.EOF at the end of the file, and also if the block that
// begins there does not end. Beside any other error is what was read of it.
func (l *lines) block() (rawBlock, error) {
	b := rawBlock{at: l.at, line: l.read + 1}
	sum := crc32.New(castagnoli)
	for {
		line, err := l.next()
		if err != nil {
			return b, err
		}
		if len(line) > blocklist.MaxText+64 {
			return b, errors.New("a line is too long")
		}
		if check, ends := strings.CutPrefix(line, endWord); ends {
			if b.whole = strings.TrimSuffix(check, "\n") == fmt.Sprintf("%08x", sum.Sum32()); !b.whole {
				return b, errors.New("the checksum is wrong")
			}
			return b, nil
		}
		_, _ = io.WriteString(sum, line)
		line = strings.TrimSuffix(line, "\n")
		switch {
		case b.head == "":
			b.head = line
		case strings.HasPrefix(line, "undo "):
			b.undo = append(b.undo, line)
		default:
			b.lines = append(b.lines, line)
		}
	}
}

// take applies a block.
func (r *reading) take(b rawBlock, wantRecords bool) error {
	var c blocklist.Change
	for _, line := range b.lines {
		if err := c.AddLine(line); err != nil {
			return err
		}
	}
	if head, first := strings.CutPrefix(b.head, listWord); first {
		number, rest, _ := strings.Cut(head, " ")
		at, born, _ := strings.Cut(rest, " ")
		version, err := strconv.ParseUint(number, 10, 64)
		if err == nil {
			r.written, err = time.Parse(time.RFC3339Nano, at)
		}
		if err != nil {
			return fmt.Errorf("the first line is not that of a list: %w", err)
		}
		r.content = blocklist.Content{Born: born}.Patch(c, version)
		return nil
	}
	if r.good == 0 {
		return errors.New("does not begin with a list")
	}
	rec, err := blocklist.ParseRecord(b.head)
	if err != nil {
		return err
	}
	c.At, c.Auto = rec.Change.At, rec.Change.Auto
	r.content = r.content.Patch(c, rec.Version)
	if wantRecords && !rec.Change.Auto {
		text := strings.Join(append(append([]string{b.head}, b.lines...), b.undo...), "\n")
		r.records = append(r.records, text)
	}
	return nil
}

// write puts a file with one block, the content, in the place of another, for which keep, unless it is
// nil, first finds another name. Whatever happens, the one or the other is there in the end.
func write(path string, keep func() error, content blocklist.Content) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it is still there
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<16)
	head := fmt.Sprintf("%s%d %s %s", listWord, content.Version, time.Now().UTC().Format(time.RFC3339Nano), content.Born)
	fmt.Fprintln(out, strings.TrimSpace(head))
	err = content.AppendTo(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		_, err = fmt.Fprintf(f, "%s%08x\n", endWord, sum.Sum32())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if keep != nil {
		if err := keep(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(filepath.Dir(path))
	return nil
}

// syncDir makes a rename last. Where folders cannot be synced there is no way to.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// Save writes a copy of a list that is kept elsewhere, atomically.
func Save(path string, content blocklist.Content) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return write(path, nil, content)
}

// Read reads a copy that [Save] wrote, and when it was written.
func Read(path string) (blocklist.Content, time.Time, error) {
	got, err := read(path, 0, blocklist.Content{})
	if err != nil {
		return blocklist.Content{}, time.Time{}, err
	}
	return got.content, got.written, nil
}
