package config

import (
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
	"github.com/weirhq/caddy-weir/limiter"
)

// ListPath returns the path of the file that keeps the shared block list where there is no
// Redis: weir/blocklist/list in Caddy's data directory.
func ListPath() string { return filepath.Join(listDir(), "list") }

func listDir() string { return filepath.Join(caddy.AppDataDir(), "weir", "blocklist") }

// A namer gives keys the names by which bans call them, the same on all nodes that share a list
// and over restarts. It is safe for concurrent use.
type namer struct {
	dir    string // of the secret that is kept on disk
	clear  bool   // keys are their own names
	store  func(dst []byte, key string) ([]byte, bool)
	shared func() []byte // the secret that the store shares with others; nil if unknown
	logger *zap.Logger

	hasher atomic.Pointer[limiter.Hasher] // of the secret on disk, or of the user's
	mu     sync.Mutex
	saved  string // the secret on disk, if it is the store's
	failed bool
}

// newNamer returns the namer of a configuration. pooled is its Redis store, if it has one.
func newNamer(s *Shared, dir string) *namer {
	n := &namer{dir: dir, clear: s.app.HashKeys == off, logger: s.logger}
	switch {
	case n.clear && s.redis == nil:
		n.hasher.Store(limiter.NewHasher(nil)) // for keys that are too long
	case s.redis == nil && s.app.Secret != "":
		n.hasher.Store(limiter.NewHasher([]byte(s.app.Secret)))
	case s.redis != nil:
		n.store, n.shared = s.pooled.AppendName, s.pooled.Shared
		// Until Redis has been seen, its last secret names those in the copy of the list.
		if secret, err := filelist.Secret(dir, true); err == nil && !n.clear && s.app.Secret == "" {
			n.hasher.Store(limiter.NewHasher(secret))
			n.saved = string(secret)
			s.pooled.Suggest(secret)
		}
	}
	return n
}

// append appends the name of a key to dst. It reports false while names cannot be known.
func (n *namer) append(dst []byte, key string) ([]byte, bool) {
	if n.store != nil {
		if out, known := n.store(dst, key); known {
			return out, true
		}
		h := n.hasher.Load()
		if h == nil {
			return dst, false
		}
		return h.Append(dst, key), true
	}
	if n.clear && isPlainKey(key) {
		return append(dst, key...), true
	}
	h := n.hasher.Load()
	if h == nil {
		h = n.fromDisk()
	}
	if n.clear {
		dst = append(dst, "%-"...)
	}
	return h.Append(dst, key), true
}

// isPlainKey reports whether a key is short and printable, so that it can stand for itself.
func isPlainKey(key string) bool {
	if key == "" || len(key) > 96 {
		return false
	}
	for _, c := range key {
		if c == unicode.ReplacementChar || c == '%' || unicode.IsControl(c) {
			return false
		}
	}
	return true
}

// network appends the name of a network to dst, see [blocklist.Network].
func (n *namer) network(dst []byte, p netip.Prefix) ([]byte, bool) {
	var room [64]byte
	return n.append(dst, string(blocklist.Network(room[:0], p)))
}

// fromDisk gets, or makes, the secret on disk. If that fails bans are forgotten with the process.
func (n *namer) fromDisk() *limiter.Hasher {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hasher.Load(); h != nil {
		return h
	}
	secret, err := filelist.Secret(n.dir, false)
	if err != nil {
		n.logger.Warn("the secret by which bans name clients cannot be kept: a restart forgets whom they mean", zap.Error(err))
		secret = processSecret[:]
	}
	h := limiter.NewHasher(secret)
	n.hasher.Store(h)
	return h
}

// save keeps the secret of the store on disk, for a start without it.
func (n *namer) save() {
	if n.shared == nil {
		return
	}
	secret := n.shared()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(secret) == 0 || string(secret) == n.saved {
		return
	}
	if err := filelist.KeepSecret(n.dir, secret, true); err != nil {
		if !n.failed {
			n.logger.Warn("the secret of the shared block list cannot be kept on disk", zap.Error(err))
		}
		n.failed = true
		return
	}
	n.saved = string(secret)
	n.hasher.Store(limiter.NewHasher(secret))
}

// Name returns what bans call a key. It reports false while that cannot be known: as long as the
// secret that all nodes share has never been seen.
func (s *Shared) Name(key string) (string, bool) {
	name, known := s.list.names.append(nil, key)
	return string(name), known
}

// AppendName is Name, appended to dst.
func (s *Shared) AppendName(dst []byte, key string) ([]byte, bool) {
	return s.list.names.append(dst, key)
}
