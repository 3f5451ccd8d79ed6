package filelist

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirhq/caddy-weir/limiter"
)

// secretName is the file beside a list that holds the secret by which keys of bans are named.
const secretName = "secret"

// Secret returns the secret that lies in a folder, for naming the keys of bans alike over
// restarts. If there is none it is made, readable for this user alone; with peek it is not, and the
// error is [fs.ErrNotExist].
func Secret(dir string, peek bool) ([]byte, error) {
	path := filepath.Join(dir, secretName)
	secret, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(secret)) < 16 {
		return nil, fmt.Errorf("%s: must hold at least 16 bytes", path)
	}
	if err == nil {
		return bytes.TrimSpace(secret), nil
	}
	if peek || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := KeepSecret(dir, []byte(rand.Text()), false); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return Secret(dir, true) // whoever was first wins
}

// KeepSecret puts a secret into a folder. Unless it may replace another that is there, that is
// the error [fs.ErrExist].
func KeepSecret(dir string, secret []byte, replace bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, secretName+".new*") // readable for this user alone
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(bytes.Clone(secret), '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	path := filepath.Join(dir, secretName)
	if replace {
		return os.Rename(f.Name(), path)
	}
	return os.Link(f.Name(), path)
}

// Name returns what a ban in this list calls a key, or the text of a network, see
// [blocklist.Network], by the secret beside the list.
func (k *Keeper) Name(_ context.Context, key string) (string, error) {
	secret, err := Secret(filepath.Dir(k.path), false)
	if err != nil {
		return "", err
	}
	return limiter.NewHasher(secret).String(key), nil
}
