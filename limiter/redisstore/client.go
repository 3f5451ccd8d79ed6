// Package redisstore keeps what was counted on a Redis (or a Valkey) server, so that
// many processes share one budget.
//
// A step is one script call over all its limits: the script reads every state, decides,
// and only if all agree writes them, by the server's clock. What the states mean is told
// in package algorithm, whose Lua twins the scripts are joined from; [Store] only carries
// numbers there and answers back.
//
// A call takes at most [Options].Timeout, whatever the server does, and nothing is sent
// twice once it may have been counted.
package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirhq/caddy-weir/limiter"
)

// Defaults of [Options].
const (
	DefaultPrefix   = "weir:"
	DefaultTimeout  = 50 * time.Millisecond
	DefaultPoolSize = 64
)

// Options says where the server is and how it is used. Only Address is required.
type Options struct {
	// Address is host:port or a URL: redis://, rediss:// (TLS) or unix://, which may
	// name user, password and database.
	Address string
	// Username, Password and DB take precedence over what the URL says.
	Username, Password string
	DB                 int
	// TLS, if set, is used for the connection whatever the address says.
	TLS *tls.Config
	// Prefix begins the name of every key; default [DefaultPrefix].
	Prefix string
	// Timeout is the longest that any call takes, waiting for a connection
	// included; default [DefaultTimeout].
	Timeout time.Duration
	// PoolSize is the most connections there may be; default [DefaultPoolSize].
	PoolSize int
	// ClearKeys names states after the keys themselves instead of their hashes. It
	// lets everybody who may read from the server see who the clients are.
	ClearKeys bool
	// Secret keys the hashes. Stores that shall count together need the same. Without
	// one, a random secret is kept on the server under the prefix and "secret"; a
	// server that lost it is given it back by whoever connects next.
	Secret []byte
	// Now replaces the server's clock in tests. States are then kept for at least a
	// minute, since the server's clock still expires them.
	Now func() time.Time
}

func init() {
	// The client writes to the process's standard error what its calls return as well.
	logging.Disable()
}

// New returns a store. It does not connect: a server that is down is met with
// [limiter.ErrUnavailable] by each call, until it is up.
func New(o Options) (*Store, error) {
	if o.Timeout < 0 {
		return nil, fmt.Errorf("redis: timeout: must not be negative, got %s", o.Timeout)
	}
	if o.PoolSize < 0 {
		return nil, fmt.Errorf("redis: pool_size: must not be negative, got %d", o.PoolSize)
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("redis: prefix: must not contain braces, which place keys in a cluster, got %q", o.Prefix)
	}
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.PoolSize = cmp.Or(o.PoolSize, DefaultPoolSize)
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, names: names{prefix: o.Prefix, clear: o.ClearKeys}}
	switch {
	case o.ClearKeys:
		// Only keys that are too long are hashed: to be short, not to be secret.
		s.hasher.Store(limiter.NewHasher(nil))
	case len(o.Secret) > 0:
		s.hasher.Store(limiter.NewHasher(o.Secret))
	default:
		s.secret = []byte(rand.Text())
		client.OnConnect = s.agree
	}
	s.client = redis.NewClient(client)
	return s, nil
}

// client returns the options of the client, which never repeats a command and never
// waits beyond the deadline of a call.
func (o *Options) client() (*redis.Options, error) {
	c := &redis.Options{Addr: o.Address}
	if strings.Contains(o.Address, "://") {
		var err error
		if c, err = redis.ParseURL(o.Address); err != nil {
			// The error would repeat parts of the URL, perhaps of a password.
			return nil, errors.New("redis: address: must be host:port or a redis://, rediss:// or unix:// URL (special letters of a password percent-encoded)")
		}
	} else if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return nil, fmt.Errorf("redis: address: must be host:port or a URL: %w", err)
	}
	c.Username = cmp.Or(o.Username, c.Username)
	c.Password = cmp.Or(o.Password, c.Password)
	c.DB = cmp.Or(o.DB, c.DB)
	if o.TLS != nil {
		c.TLSConfig = o.TLS.Clone()
		if c.TLSConfig.ServerName == "" {
			c.TLSConfig.ServerName, _, _ = net.SplitHostPort(c.Addr)
		}
	}

	c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.Timeout, o.Timeout, o.Timeout, o.Timeout
	c.ContextTimeoutEnabled = true
	c.MaxRetries = -1
	c.DialerRetries = 1
	c.PoolSize, c.MaxActiveConns = o.PoolSize, o.PoolSize
	// A command and its reply are a few hundred bytes.
	c.ReadBufferSize, c.WriteBufferSize = 4<<10, 4<<10
	// Each of these would be one more round trip on every new connection.
	c.DisableIdentity = true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return c, nil
}

// agree makes all stores that share a server build the same keys: the first one's secret
// is kept there, and every new connection reads it. A server that lost it, having been
// restarted, is given back the one in use.
func (s *Store) agree(ctx context.Context, cn *redis.Conn) error {
	key := s.names.prefix + "secret"
	s.agreeing.Lock()
	mine := s.secret
	s.agreeing.Unlock()
	pipe := cn.Pipeline()
	pipe.SetNX(ctx, key, mine, 0)
	got := pipe.Get(ctx, key)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	secret, err := got.Bytes()
	if err != nil {
		return err
	}
	if len(secret) == 0 {
		return fmt.Errorf("the secret under %q is empty", key)
	}
	s.agreeing.Lock()
	defer s.agreeing.Unlock()
	if s.hasher.Load() == nil || !bytes.Equal(secret, s.secret) {
		s.secret = secret
		s.hasher.Store(limiter.NewHasher(secret))
	}
	return nil
}

// Close closes all connections. Calls that still run fail.
func (s *Store) Close() error { return s.client.Close() }

// Ping reports whether the server answers in time.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return unavailable(s.client.Ping(ctx).Err())
}

// Eviction returns the server's maxmemory_policy. Any but "noeviction" and those that
// begin with "volatile-" may silently drop a ban list or a secret; one that is not
// "volatile-ttl" may drop the fullest states first.
func (s *Store) Eviction(ctx context.Context) (string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	info, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return "", unavailable(err)
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy, nil
		}
	}
	return "", unavailable(errors.New("no maxmemory_policy in its memory report"))
}

// deadline gives a call its time. It is cut loose from ctx, since a decision must not
// be lost half made because a client hung up.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.opts.Timeout)
}

// plain says in other words what some servers' errors mean to us, by their first word.
var plain = map[string]string{
	"LOADING":     "it is still loading its data",
	"READONLY":    "it is a replica that takes no writes",
	"MASTERDOWN":  "it is a replica that has lost its master",
	"OOM":         "its memory is full (maxmemory)",
	"MISCONF":     "it takes no writes since it cannot save them",
	"BUSY":        "it is busy with somebody's slow script",
	"MOVED":       "it is part of a cluster, and was addressed as a single node",
	"ASK":         "it is part of a cluster, and was addressed as a single node",
	"CLUSTERDOWN": "its cluster is down",
	"NOAUTH":      "it wants a password",
	"WRONGPASS":   "it refuses the user or password",
	"NOPERM":      "it does not permit this user what the store needs",
}

// unavailable wraps what went wrong with a call in [limiter.ErrUnavailable].
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		text := reply.Error()
		word, _, _ := strings.Cut(text, " ")
		if why, ok := plain[word]; ok {
			return fmt.Errorf("%w: redis: %s: %w", limiter.ErrUnavailable, why, err)
		}
	}
	return fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, err)
}
