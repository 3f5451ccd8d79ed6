package filelist

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// trailName ends the name of the file that keeps the changes which were folded into the list, blocks as
// in the list.
const trailName = ".trail"

// Trail implements [blocklist.Keeper].
func (k *Keeper) Trail(_ context.Context, n int) ([]blocklist.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trail(n)
}

func (k *Keeper) trail(n int) ([]blocklist.Record, error) {
	var texts []string
	for _, path := range []string{k.path + trailName, k.path} {
		more, err := records(path)
		if err != nil {
			return nil, err
		}
		texts = append(texts, more...)
	}
	var out []blocklist.Record
	for _, text := range slices.Backward(remembered(texts)) {
		if len(out) >= n {
			break
		}
		rec, err := blocklist.ParseRecord(text)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 || rec.Version < out[len(out)-1].Version {
			out = append(out, rec)
		}
	}
	return out, nil
}

// remembered returns the last changes, as many as are remembered.
func remembered(texts []string) []string {
	size, first := 0, len(texts)
	for first > 0 && len(texts)-first < blocklist.MaxTrail {
		size += len(texts[first-1])
		if size > blocklist.MaxTrailBytes && first < len(texts) {
			break
		}
		first--
	}
	return texts[first:]
}

// record finds the change that led to a version.
func (k *Keeper) record(version uint64) (blocklist.Record, error) {
	all, err := k.trail(blocklist.MaxTrail)
	if err != nil {
		return blocklist.Record{}, err
	}
	for _, rec := range all {
		if rec.Version == version {
			return rec, nil
		}
	}
	return blocklist.Record{}, blocklist.Refuse(fmt.Errorf("undo %d: there is no record of this change", version))
}

// records reads the texts of the changes in a file, which need not be there. If it is damaged they are
// those before the damage.
func records(path string) ([]string, error) {
	got, err := scan(path, 0, blocklist.Content{}, true)
	var d *Damage
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &d):
		return got.records, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return got.records, nil
}

// keepTrail moves the changes in the list to the trail. Done twice it does no harm: nobody is
// told of one version twice.
func (k *Keeper) keepTrail() error {
	kept, err := records(k.path + trailName)
	if err != nil {
		kept = nil // a broken trail must not keep the list from being written
	}
	more, err := records(k.path)
	if err != nil {
		return err
	}
	all := remembered(append(kept, more...))
	var b strings.Builder
	b.Write(block(listWord + "0 2006-01-02T15:04:05Z\n"))
	for _, text := range all {
		b.Write(block(text + "\n"))
	}
	temp := k.path + trailName + ".new"
	if err := os.WriteFile(temp, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, k.path+trailName)
}
