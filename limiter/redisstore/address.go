package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// link connects nothing yet. met, if not nil, is called with each new connection to a server
// that keeps counts.
func (o *Options) link(met func(ctx context.Context, c *redis.Conn) error) (link, error) {
	first, addrs, err := o.parse()
	if err != nil {
		return nil, err
	}
	server := *first
	server.Username = cmp.Or(o.Username, first.Username)
	server.Password = cmp.Or(o.Password, first.Password)
	server.DB = cmp.Or(o.DB, first.DB)
	server.OnConnect = met
	clustered := o.clustered()
	open := func(addr string) *node {
		c := server
		c.Addr = addr
		n := &node{addr: addr, Client: redis.NewClient(&c), clustered: clustered, now: o.Now}
		n.lane = lane{carry: n.carry, few: min(fewTrips, o.PoolSize), most: min(mostTrips, o.PoolSize)}
		return n
	}
	switch {
	case o.Sentinel != "":
		server.Username, server.Password = o.Username, o.Password
		sentinels := make([]*redis.Client, len(addrs))
		for i, addr := range addrs {
			c := *first
			c.Addr, c.DB = addr, 0
			sentinels[i] = redis.NewClient(&c)
		}
		return newSentinel(o.Sentinel, sentinels, open, o.Timeout), nil
	case clustered:
		if server.DB != 0 {
			return nil, fmt.Errorf("redis: db: a cluster has only 0, got %d", server.DB)
		}
		return newCluster(addrs, open, o.Timeout), nil
	}
	return single{open(addrs[0])}, nil
}

// parse reads the addresses. What they say beyond host and port has to be the same in all,
// and is returned as the options of a client.
func (o *Options) parse() (*redis.Options, []string, error) {
	several := o.Sentinel != "" || o.Cluster || len(o.Addresses) > 1
	var first *redis.Options
	var addrs []string
	for _, address := range o.Addresses {
		c, err := o.client(address)
		switch {
		case err != nil:
			return nil, nil, err
		case several && c.Network == "unix":
			return nil, nil, errors.New("redis: address: a socket stands for a server of its own")
		case first == nil:
			first = c
		case c.Username != first.Username || c.Password != first.Password || c.DB != first.DB || (c.TLSConfig == nil) != (first.TLSConfig == nil):
			return nil, nil, errors.New("redis: address: all have to name the same user, password and database, and use TLS alike")
		}
		addrs = append(addrs, c.Addr)
	}
	if first == nil {
		return nil, nil, errors.New("redis: address: there is none")
	}
	proof := o.TLS
	if proof == nil && first.TLSConfig != nil {
		proof = new(TLS)
	}
	first.Dialer = dialer(proof, o.Timeout)
	first.TLSConfig = nil // the dialer does it
	return first, addrs, nil
}

// client returns the options of a client, which never repeats a command and never waits
// beyond the deadline of a call.
func (o *Options) client(address string) (*redis.Options, error) {
	c := &redis.Options{Addr: address, Network: "tcp"}
	if strings.Contains(address, "://") {
		var err error
		if c, err = redis.ParseURL(address); err != nil {
			// The error would repeat parts of the URL, perhaps of a password.
			return nil, errors.New("redis: address: must be host:port or a redis://, rediss:// or unix:// URL (special letters of a password percent-encoded)")
		}
	} else if strings.Contains(address, "@") {
		return nil, errors.New("redis: address: must be a URL, redis://…, to name a user or a password")
	} else if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("redis: address: must be host:port or a URL: %w", err)
	}
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = o.Timeout, o.Timeout, o.Timeout, o.Timeout
	// Nothing is pushed that would need the third.
	c.Protocol = 2
	c.ContextTimeoutEnabled = true
	c.MaxRetries = -1
	c.DialerRetries = 1
	c.PoolSize, c.MaxActiveConns, c.MinIdleConns = o.PoolSize, o.PoolSize, 0
	// Commands that go together take a connection like any other.
	c.PipelinePoolSize = -1
	// A command and its reply are a few hundred bytes.
	c.ReadBufferSize, c.WriteBufferSize = 4<<10, 4<<10
	// Each of these would be one more round trip on every new connection.
	c.DisableIdentity = true
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return c, nil
}
