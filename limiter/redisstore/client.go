// Package redisstore keeps what was counted on a Redis (or a Valkey) server, so that
// many processes share one budget.
//
// A step is one script call over all its limits: the script reads every state, decides,
// and only if all agree writes them, by the server's clock. What the states mean is told
// in package algorithm, whose Lua twins the scripts are joined from; [Store] only carries
// numbers there and answers back. Steps that are asked for at the same time share script
// calls, in which they are taken one after the other; there is nothing to set up for it.
//
// The server may be alone, or the master that sentinels name, or a cluster. There the states
// of one subject lie together; what a step over several slots promises is told at
// [Store.Take].
//
// A call takes at most [Options].Timeout, whatever the server does, and nothing is sent
// twice once it may have been counted.
package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weirhq/caddy-weir/limiter"
)

// Defaults of [Options].
const (
	DefaultPrefix   = "weir:"
	DefaultTimeout  = 50 * time.Millisecond
	DefaultPoolSize = 64
)

// Options says where the servers are and how they are used. Only Addresses are required.
type Options struct {
	// Addresses are host:port or URLs: redis://, rediss:// (TLS) or unix://, which may
	// name user, password and database, alike in all of them. One is a server of its
	// own, several are nodes of a cluster; with Sentinel they are sentinels.
	Addresses []string
	// Sentinel is the name under which sentinels know the servers of which one is the
	// master. User and password in the addresses are then those of the sentinels.
	Sentinel string
	// Cluster says that even a single address is that of a node of a cluster.
	Cluster bool
	// Username, Password and DB take precedence over what the URLs say.
	Username, Password string
	DB                 int
	// TLS, if set, is used for all connections whatever the addresses say.
	TLS *TLS
	// Prefix begins the name of every key; default [DefaultPrefix].
	Prefix string
	// Timeout is the longest that any call takes, waiting for a connection
	// included; default [DefaultTimeout].
	Timeout time.Duration
	// PoolSize is the most connections there may be to a server; default
	// [DefaultPoolSize].
	PoolSize int
	// ClearKeys names states after the keys themselves instead of their hashes. It
	// lets everybody who may read from the server see who the clients are.
	ClearKeys bool
	// Secret keys the hashes. Stores that shall count together need the same. Without
	// one, a random secret is kept on the server under the prefix and "secret"; a
	// server that lost it is given it back, within seconds or by whoever connects next.
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
	s := &Store{opts: o, names: names{prefix: o.Prefix, clear: o.ClearKeys}}
	var met func(ctx context.Context, c *redis.Conn) error
	switch {
	case o.ClearKeys:
		// Only keys that are too long are hashed: to be short, not to be secret.
		s.hasher.Store(limiter.NewHasher(nil))
	case len(o.Secret) > 0:
		s.hasher.Store(limiter.NewHasher(o.Secret))
	default:
		s.secret = []byte(rand.Text())
		s.renewAfter, s.opened = renewAfter, time.Now()
		s.herald = scout{timeout: o.Timeout, look: func(ctx context.Context) error { return s.agree(ctx, s.askHolder) }}
		met = s.meetNode
	}
	var err error
	s.link, err = o.link(met)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes all connections. Calls that still run fail.
func (s *Store) Close() error {
	s.herald.close()
	return s.link.close()
}

// Ping reports whether the server answers in time; of a cluster, the node that has the
// stores' secret.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return unavailable(s.link.do(ctx, s.secretKey(), "ping").Err())
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
	"MOVED":       "it is part of a cluster, and has to be addressed as one",
	"ASK":         "it is part of a cluster, and has to be addressed as one",
	"CLUSTERDOWN": "its cluster is down",
	"TRYAGAIN":    "its cluster is moving the slot",
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
