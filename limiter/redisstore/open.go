package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// A Wire carries commands of others to the servers of a store, however these are reached: for
// what is kept beside counts, under names of its own. Create it by [Open]. It is safe for
// concurrent use.
type Wire struct {
	opts  Options
	link  link
	names names
}

// Open returns a wire, whose connections are its own. Like [New] it does not connect. Of the
// options ClearKeys and Secret say what names are like, see [Wire.AppendName].
func Open(o Options) (*Wire, error) {
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redis: prefix: must not contain braces, which place keys in a cluster, got %q", o.Prefix)
	}
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.PoolSize = cmp.Or(o.PoolSize, DefaultPoolSize)
	w := &Wire{opts: o, names: names{prefix: o.Prefix, clear: o.ClearKeys}}
	var err error
	w.link, err = o.link(nil)
	return w, err
}

// Close closes all connections. Calls that still run fail.
func (w *Wire) Close() error { return w.link.close() }

// Prefix begins the names of all keys.
func (w *Wire) Prefix() string { return w.opts.Prefix }

// Do sends a command that concerns a key, and perhaps others in the same slot, and waits for the
// answer within ctx and the options' Timeout. Nothing is sent twice once it may have been done. An
// error other than [redis.Nil] wraps [limiter.ErrUnavailable].
func (w *Wire) Do(ctx context.Context, key string, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, w.opts.Timeout)
	defer cancel()
	cmd := w.link.do(ctx, key, args...)
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
		cmd.SetErr(unavailable(err))
	}
	return cmd
}

// Subscribe returns a subscription to a channel at the server that has a key now, under the name at
// which that server is reached. Where a channel is heard the server's role or slots do not matter to it:
// whoever waits for messages has to see to it that the key is still there.
func (w *Wire) Subscribe(ctx context.Context, key, channel string) (*redis.PubSub, string, error) {
	n, err := w.home(ctx, key)
	if err != nil {
		return nil, "", err
	}
	return n.Subscribe(ctx, channel), n.addr, nil
}

// Home returns the address of the server that has a key now.
func (w *Wire) Home(ctx context.Context, key string) (string, error) {
	n, err := w.home(ctx, key)
	if err != nil {
		return "", err
	}
	return n.addr, nil
}

func (w *Wire) home(ctx context.Context, key string) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, w.opts.Timeout)
	defer cancel()
	n, err := w.link.home(ctx, w.link.slot(key))
	if err != nil {
		return nil, unavailable(err)
	}
	return n, nil
}

// AppendName appends what a key is called on the servers, apart from its limits: its hash, by
// the secret of the options or the one that is kept on the servers; or the key itself where keys
// are not hashed.
func (w *Wire) AppendName(ctx context.Context, dst []byte, key string) ([]byte, error) {
	secret := w.opts.Secret
	if len(secret) == 0 && !w.opts.ClearKeys {
		name := w.names.prefix + "secret"
		text, err := w.Do(ctx, name, "get", name).Text()
		if errors.Is(err, redis.Nil) || err == nil && text == "" {
			return dst, fmt.Errorf("%w: redis: there is no secret under %q yet, by which keys are named", limiter.ErrUnavailable, name)
		}
		if err != nil {
			return dst, err
		}
		secret = []byte(text)
	}
	return w.names.subject(dst, limiter.NewHasher(secret), key), nil
}

// AppendName appends what the store calls a key, apart from its limits. It reports false as long as
// the secret is unknown that all stores share.
func (s *Store) AppendName(dst []byte, key string) ([]byte, bool) {
	h := s.hasher.Load()
	if h == nil {
		return dst, false
	}
	return s.names.subject(dst, h, key), true
}

// Shared returns the secret that is kept on the servers; nil as long as it is unknown, and if the
// store has a secret of its own or none.
func (s *Store) Shared() []byte {
	if s.renewAfter == 0 || s.hasher.Load() == nil {
		return nil
	}
	s.agreeing.Lock()
	defer s.agreeing.Unlock()
	return s.secret
}

// Suggest gives the store a secret to share in place of a random one, should the servers have none:
// the one that they had when they were last seen. It is of no use once they have been met.
func (s *Store) Suggest(secret []byte) {
	s.agreeing.Lock()
	defer s.agreeing.Unlock()
	if s.renewAfter > 0 && s.hasher.Load() == nil && len(secret) > 0 {
		s.secret = bytes.Clone(secret)
	}
}
