package config

import (
	"iter"
	"maps"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/observe"
	"github.com/weirhq/caddy-weir/limiter/layer"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// Redis names a Redis (or Valkey) server, or several, and how to talk to them.
type Redis struct {
	// Addresses of the servers: host:port, redis://, rediss:// or unix://. One is a
	// server of its own; several are nodes of a cluster, or sentinels if `sentinel`
	// is set. Placeholders are replaced.
	Addresses []string `json:"addresses,omitempty"`
	// Sentinel is the name by which the sentinels at the addresses know the master.
	// What the addresses say of user and password is then for the sentinels.
	Sentinel string `json:"sentinel,omitempty"`
	// Cluster says that even a single address is that of a node of a cluster.
	Cluster bool `json:"cluster,omitempty"`
	// Username of an ACL user. Placeholders such as {env.REDIS_USER} are replaced.
	Username string `json:"username,omitempty"`
	// Password of that user, or of the server. Placeholders are replaced.
	Password string `json:"password,omitempty"`
	// DB is the number of the database. Default: 0, or the one in the address. A
	// cluster has only 0.
	DB int `json:"db,omitempty"`
	// TLS encrypts all connections. `{}` is enough if the servers' certificates are
	// trusted by the system.
	TLS *RedisTLS `json:"tls,omitempty"`
	// Prefix begins the name of everything that is stored. Default: `weir:`.
	Prefix string `json:"prefix,omitempty"`
	// Timeout is the longest that a request waits for a decision. Default: 50ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// PoolSize is the most connections that are held open to a server for limits, 1 to 65,536.
	// Three more listen for resets and look after the block list.
	// Default: 64.
	PoolSize int `json:"pool_size,omitempty"`
}

// RedisTLS names the certificates that connections to Redis use. The files are read anew for
// each connection, so that they may be renewed at any time. Placeholders are replaced.
type RedisTLS struct {
	// CA is a file with the authorities that servers' certificates come from, in PEM
	// form. Default: those that the system trusts.
	CA string `json:"ca,omitempty"`
	// Cert is the file of this client's certificate, in PEM form. Needs `key`.
	Cert string `json:"cert,omitempty"`
	// Key is the file of that certificate's private key. Needs `cert`.
	Key string `json:"key,omitempty"`
	// ServerName is the name that servers' certificates must hold. Default: the host
	// in each server's address.
	ServerName string `json:"server_name,omitempty"`
}

// What Redis's zero values stand for.
const (
	defaultRedisPrefix   = redisstore.DefaultPrefix
	defaultRedisTimeout  = caddy.Duration(redisstore.DefaultTimeout)
	defaultRedisPoolSize = redisstore.DefaultPoolSize
)

// mostConnections is the highest pool_size: beyond it ports run out, and the client's room for
// the pool does.
const mostConnections = 1 << 16

// The words of on_store_error.
const (
	local = "local"
	allow = "allow"
	deny  = "deny"
)

func (c *Redis) check(r report) {
	switch several := len(c.Addresses) > 1 || c.Cluster; {
	case len(c.Addresses) == 0:
		r.in("addresses").problemf("must be at least one")
	case c.Sentinel != "" && c.Cluster:
		r.in("cluster").problemf("cannot be had with sentinel: a cluster has no sentinels")
	case several && c.Sentinel == "" && c.DB != 0:
		r.in("db").problemf("must be 0 in a cluster, got %d", c.DB)
	}
	if c.TLS != nil {
		c.TLS.check(r.in("tls"))
	}
	if c.DB < 0 {
		r.in("db").problemf("must not be negative, got %d", c.DB)
	}
	if c.Timeout < 0 {
		r.in("timeout").problemf("must be positive, got %s", time.Duration(c.Timeout))
	}
	if c.PoolSize < 0 || c.PoolSize > mostConnections {
		r.in("pool_size").problemf("must be between 1 and %d, got %d", mostConnections, c.PoolSize)
	}
	if c.Username != "" && c.Password == "" {
		r.in("username").problemf("needs a password")
	}
	adviseSecret(r.in("password"), c.Password)
	for _, address := range c.Addresses {
		if u, err := url.Parse(address); err == nil {
			password, _ := u.User.Password()
			adviseSecret(r.in("addresses"), password)
		}
	}
}

func (c *RedisTLS) check(r report) {
	if (c.Cert == "") != (c.Key == "") {
		r.problemf("cert and key: must both be given, or neither")
	}
}

func (c *RedisTLS) resolved(r report) *RedisTLS {
	out := &RedisTLS{
		CA:         replace(r.in("ca"), c.CA),
		Cert:       replace(r.in("cert"), c.Cert),
		Key:        replace(r.in("key"), c.Key),
		ServerName: replace(r.in("server_name"), c.ServerName),
	}
	if _, err := out.files().Config(""); err != nil {
		// The files may come, or be renewed, at any time: they are read again then.
		r.warn("Redis is not used until its certificates can be read: " + err.Error())
	}
	return out
}

// files returns the names of the files as the store wants them.
func (c *RedisTLS) files() *redisstore.TLS {
	return &redisstore.TLS{CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName}
}

func (c *Redis) resolved(r report) Redis {
	out := *c
	out.Addresses = make([]string, len(c.Addresses))
	for i, address := range c.Addresses {
		out.Addresses[i] = replace(r.in("addresses"), address)
	}
	out.Sentinel = replace(r.in("sentinel"), c.Sentinel)
	if c.TLS != nil {
		out.TLS = c.TLS.resolved(r.in("tls"))
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
	addresses          string // in order, a line each
	sentinel           string
	cluster            bool
	username, password string
	db                 int
	secure             bool
	tls                redisstore.TLS
	prefix             string
	timeout            time.Duration
	poolSize           int
	hashed             bool
	secret             string
}

type pooledMemory struct {
	*memstore.Store

	leases  *lessor
	uncount func() // its keys, for the metrics
}

func (p pooledMemory) Destruct() error {
	p.uncount()
	return nil
}

type pooledRedis struct {
	*redisstore.Store

	leases    *lessor
	breaker   *layer.Breaker   // stands before the store
	refusals  *layer.DenyCache // of the store
	users     *storeUsers      // the configurations
	inspected *atomic.Bool     // whether one of them has warned of what its servers lack
}

// Destruct closes the store when the last request that holds a lease in it has ended.
func (p pooledRedis) Destruct() error {
	p.breaker.Close()
	return p.leases.close(p.Close)
}

// holds is the references that one configuration took from the pool.
type holds struct{ keys []any }

func (h *holds) memory(maxKeys int) (*memstore.Store, *lessor, error) {
	v, err := h.take(memoryKey{}, func() (caddy.Destructor, error) {
		s := memstore.New(memstore.Options{MaxKeys: maxKeys, Now: Clock})
		uncount := observe.CountKeys(func() iter.Seq2[string, int] { return maps.All(s.Keys()) })
		return pooledMemory{s, newLessor(s, true), uncount}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	pooled := v.(pooledMemory)
	return pooled.Store, pooled.leases, nil
}

func (h *holds) redis(a *App) (pooledRedis, error) {
	key := a.redisKey()
	v, err := h.take(key, func() (caddy.Destructor, error) {
		s, err := redisstore.New(key.options(a.Redis))
		if err != nil {
			return nil, err
		}
		return newPooledRedis(s), nil
	})
	if err != nil {
		return pooledRedis{}, err
	}
	return v.(pooledRedis), nil
}

// redisKey names the configuration's Redis.
func (a *App) redisKey() redisKey {
	c := a.Redis
	key := redisKey{
		addresses: strings.Join(c.Addresses, "\n"), sentinel: c.Sentinel, cluster: c.Cluster,
		username: c.Username, password: c.Password,
		db: c.DB, prefix: c.Prefix,
		timeout: time.Duration(c.Timeout), poolSize: c.PoolSize,
		hashed: a.HashKeys == on, secret: a.Secret,
	}
	if c.TLS != nil {
		key.secure, key.tls = true, *c.TLS.files()
	}
	return key
}

// options are how the Redis of a key, which c says as well, is reached.
func (k redisKey) options(c *Redis) redisstore.Options {
	o := redisstore.Options{
		Addresses: c.Addresses, Sentinel: k.sentinel, Cluster: k.cluster,
		Username: k.username, Password: k.password,
		DB: k.db, Prefix: k.prefix,
		Timeout: k.timeout, PoolSize: k.poolSize,
		ClearKeys: !k.hashed, Secret: []byte(k.secret),
	}
	if k.secure {
		tls := k.tls
		o.TLS = &tls
	}
	return o
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
