package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/blocklist/redislist"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// A Place is where a shared list is kept, for tools that go there past any server.
type Place struct {
	// Keeper of the list.
	Keeper blocklist.Keeper
	// Where it is, in words for people.
	Where string
	// Protected are the addresses that the list does not concern, as far as they are known
	// without a server.
	Protected []netip.Prefix
	// Name returns what bans call a key.
	Name func(ctx context.Context, key string) (string, error)
	// Close lets go of the list.
	Close func() error
}

// RedisPlace is the place of a list in Redis.
func RedisPlace(o redisstore.Options) (*Place, error) {
	k, err := redislist.Open(o, Clock)
	if err != nil {
		return nil, err
	}
	return &Place{
		Keeper: k, Where: fmt.Sprintf("redis, database %d, under the prefix %q", o.DB, k.Prefix()), Name: k.Name, Close: k.Close,
		Protected: newProtection(nil, nil).all(),
	}, nil
}

// Readable reports whether what [blocklist.Keeper.Load] returned is a list, of which at most single
// rules and bans are missing, or what stands behind damage.
func Readable(content blocklist.Content, err error) bool {
	return err == nil || isDamaged(err) || content.Version > 0 && isUnreadable(err)
}

// FilePlace is the place of a list in a file, or in the folder that holds it. The file has to be there: a path that was mistyped must
// not become a list that nobody reads. clear says that bans name keys in clear, and secret is
// what names are hashed by; without one it is the secret beside the file.
func FilePlace(path string, clear bool, secret []byte) (*Place, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() { // such as weir/blocklist in Caddy's data directory
		path = filepath.Join(path, filepath.Base(ListPath()))
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no list at %s", path)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	n := &namer{dir: filepath.Dir(path), clear: clear, logger: zap.NewNop()}
	switch {
	case clear:
		n.hasher.Store(limiter.NewHasher(nil))
	case len(secret) > 0:
		n.hasher.Store(limiter.NewHasher(secret))
	}
	k := filelist.Open(path, Clock)
	return &Place{
		Keeper: k, Where: path, Close: k.Close,
		Protected: newProtection(nil, nil).all(),
		Name: func(_ context.Context, key string) (string, error) {
			name, _ := n.append(nil, key) // a secret on disk is made if there is none
			return string(name), nil
		},
	}, nil
}

// Place is the place of the list of a configuration, whose placeholders are those of this
// process. A call takes as long as timeout at most.
func (a *App) Place(timeout time.Duration) (*Place, error) {
	r := newReport()
	a.check(r)
	app := a.resolved(r)
	if err := r.err(); err != nil {
		return nil, err
	}
	var p *Place
	var err error
	if app.Redis != nil {
		key := app.redisKey()
		o := key.options(app.Redis)
		o.Timeout = max(o.Timeout, timeout)
		p, err = RedisPlace(o)
	} else {
		p, err = FilePlace(ListPath(), app.HashKeys == off, []byte(app.Secret))
		if err != nil {
			err = fmt.Errorf("%w: Caddy's data directory is that of the user it runs as, so run this as that user, or name the file by --file", err)
		}
	}
	if err != nil {
		return nil, err
	}
	p.Protected = newProtection(app.Block.Protect, app.Block.Allow).all()
	return p, nil
}
