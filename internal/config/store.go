package config

import (
	"iter"
	"maps"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// Redis names a Redis (or Valkey) server and how to talk to it.
type Redis struct {
	// Addresses of the server, one: host:port, redis://, rediss:// or unix://.
	// Placeholders are replaced.
	Addresses []string `json:"addresses,omitempty"`
	// Username of an ACL user. Placeholders such as {env.REDIS_USER} are replaced.
	Username string `json:"username,omitempty"`
	// Password of that user, or of the server. Placeholders are replaced.
	Password string `json:"password,omitempty"`
	// DB is the number of the database. Default: 0, or the one in the address.
	DB int `json:"db,omitempty"`
	// Prefix begins the name of everything that is stored. Default: `weir:`.
	Prefix string `json:"prefix,omitempty"`
	// Timeout is the longest that a request waits for a decision. Default: 50ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// PoolSize is the most connections that are held open. Default: 64.
	PoolSize int `json:"pool_size,omitempty"`
}

// What Redis's zero values stand for.
const (
	defaultRedisPrefix   = redisstore.DefaultPrefix
	defaultRedisTimeout  = caddy.Duration(redisstore.DefaultTimeout)
	defaultRedisPoolSize = redisstore.DefaultPoolSize
)

// The words of on_store_error.
const (
	local = "local"
	allow = "allow"
	deny  = "deny"
)

func (c *Redis) check(r report) {
	if len(c.Addresses) != 1 {
		r.in("addresses").problemf("must be one address, got %d", len(c.Addresses))
	}
	if c.DB < 0 {
		r.in("db").problemf("must not be negative, got %d", c.DB)
	}
	if c.Timeout < 0 {
		r.in("timeout").problemf("must be positive, got %s", time.Duration(c.Timeout))
	}
	if c.PoolSize < 0 {
		r.in("pool_size").problemf("must be positive, got %d", c.PoolSize)
	}
	if c.Username != "" && c.Password == "" {
		r.in("username").problemf("needs a password")
	}
	adviseSecret(r.in("password"), c.Password)
}

func (c *Redis) resolved(r report) Redis {
	out := *c
	out.Addresses = make([]string, len(c.Addresses))
	for i, address := range c.Addresses {
		out.Addresses[i] = replace(r.in("addresses"), address)
	}
	out.Username = replace(r.in("username"), c.Username)
	out.Password = replace(r.in("password"), c.Password)
	setDefault(&out.Prefix, defaultRedisPrefix)
	setDefault(&out.Timeout, defaultRedisTimeout)
	setDefault(&out.PoolSize, defaultRedisPoolSize)
	return out
}

// Clock is the clock of the memory store, nil for the system's. It is here for the
// TestMain of a whole-program test, which sets it before Caddy starts.
var Clock func() time.Time

// stores holds the stores of all configurations that are in use, so that counts
// survive a reload: the new configuration takes its reference before the old one
// gives its own back.
var stores = caddy.NewUsagePool()

// A memoryKey names the memory store in the pool. There is one in a process.
type memoryKey struct{}

// A redisKey names a Redis store in the pool: everything that tells one connection's
// counts and manners from another's.
type redisKey struct {
	address, username, password string
	db                          int
	prefix                      string
	timeout                     time.Duration
	poolSize                    int
	hashed                      bool
	secret                      string
}

type pooledMemory struct {
	*memstore.Store

	uncount func() // its keys, for the metrics
}

func (p pooledMemory) Destruct() error {
	p.uncount()
	return nil
}

type pooledRedis struct{ *redisstore.Store }

func (p pooledRedis) Destruct() error { return p.Close() }

// holds is the references that one configuration took from the pool.
type holds struct{ keys []any }

func (h *holds) memory(maxKeys int) (*memstore.Store, error) {
	v, err := h.take(memoryKey{}, func() (caddy.Destructor, error) {
		s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: Clock})
		uncount := observe.CountKeys(func() iter.Seq2[string, int] { return maps.All(s.Keys()) })
		return pooledMemory{s, uncount}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(pooledMemory).Store, nil
}

func (h *holds) redis(a *App) (limiter.Store, error) {
	c := a.Redis
	key := redisKey{
		address:  c.Addresses[0],
		username: c.Username, password: c.Password,
		db: c.DB, prefix: c.Prefix,
		timeout: time.Duration(c.Timeout), poolSize: c.PoolSize,
		hashed: a.HashKeys == on, secret: a.Secret,
	}
	v, err := h.take(key, func() (caddy.Destructor, error) {
		s, err := redisstore.New(redisstore.Options{
			Address:  key.address,
			Username: key.username, Password: key.password,
			DB: key.db, Prefix: key.prefix,
			Timeout: key.timeout, PoolSize: key.poolSize,
			ClearKeys: !key.hashed, Secret: []byte(key.secret),
		})
		return pooledRedis{s}, err
	})
	if err != nil {
		return nil, err
	}
	return v.(pooledRedis).Store, nil
}

func (h *holds) take(key any, build caddy.Constructor) (any, error) {
	v, _, err := stores.LoadOrNew(key, build)
	if err != nil {
		return nil, err
	}
	h.keys = append(h.keys, key)
	return v, nil
}

// release gives all references back, once.
func (h *holds) release() error {
	var first error
	for _, key := range h.keys {
		if _, err := stores.Delete(key); err != nil && first == nil {
			first = err
		}
	}
	h.keys = nil
	return first
}
