package main

import (
	"io"
	"net"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/delay"
	"github.com/weirhq/caddy-weir/internal/redistest"
)

// An outage is one way of losing Redis, on its ground.
type outage struct {
	name, says string
	start      func(h *host) (*ground, error)
	plot       func(g *ground) plot
}

// A ground is the servers that an outage happens to.
type ground struct {
	host     *host
	redis    string // the global block for Redis of a Caddyfile
	server   *redistest.Server
	proxy    *delay.Proxy
	conn     net.Conn // to the server
	cluster  *redistest.ClusterSet
	sentinel *redistest.SentinelSet
}

// A plot is what happens.
type plot struct {
	breaks func()
	// mends ends the outage after the time that it lasts; nil if the servers do by themselves.
	mends func()
	// back waits until somebody serves; nil if that is so at once.
	back func()
	// apart is whether part of the keys is served all the time.
	apart bool
}

// single is a server behind a proxy.
func single(h *host) (*ground, error) {
	s := redistest.Start(h, redistest.Options{})
	p, err := delay.Start(s.Addr(), 0)
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { p.Close() })
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { c.Close() })
	return &ground{host: h, redis: redisBlock([]string{p.Addr()}, ""), server: s, proxy: p, conn: c}, nil
}

// ping waits for an answer over a connection from before the outage: a server that was frozen
// has a queue of new ones.
func (g *ground) ping() {
	err := g.conn.SetDeadline(time.Now().Add(patience))
	if err == nil {
		_, err = io.WriteString(g.conn, "PING\r\n")
	}
	if err == nil {
		_, err = g.conn.Read(make([]byte, len("+PONG\r\n")))
	}
	if err != nil {
		g.host.Fatalf("the redis-server does not go on: %v", err)
	}
}

func clustered(h *host) (*ground, error) {
	c := redistest.StartCluster(h, redistest.Options{})
	return &ground{host: h, redis: redisBlock(c.Addrs(), ""), cluster: c}, nil
}

func sentinels(h *host) (*ground, error) {
	set := redistest.StartSentinels(h, redistest.Options{})
	return &ground{host: h, redis: redisBlock(set.Addrs(), "sentinel "+redistest.MasterName), sentinel: set}, nil
}

func redisBlock(addrs []string, option string) string {
	return "redis " + strings.Join(addrs, " ") + " {\n\t\t\ttimeout " + outageTimeout.String() + "\n\t\t\t" + option + "\n\t\t}"
}

func frozen(g *ground) plot {
	return plot{breaks: g.server.Pause, mends: g.server.Resume, back: g.ping}
}

func killed(g *ground) plot { return plot{breaks: g.server.Kill, mends: g.server.Restart} }

func restarted(g *ground) plot { return plot{breaks: g.server.Stop, back: g.server.Restart} }

func slowed(g *ground) plot {
	return plot{breaks: func() { g.proxy.Set(200 * time.Millisecond) }, mends: func() { g.proxy.Set(0) }}
}

func masterFrozen(g *ground) plot {
	replica := g.cluster.Replicas[0]
	return plot{
		breaks: g.cluster.Masters[0].Pause,
		back: func() {
			g.await("the replica takes over", func() bool {
				role, err := info(replica, "replication", "role")
				return err == nil && role == "master"
			})
		},
		apart: true,
	}
}

func shardFrozen(g *ground) plot {
	master, replica, other := g.cluster.Masters[0], g.cluster.Replicas[0], g.cluster.Masters[1]
	return plot{
		breaks: func() { replica.Pause(); master.Pause() },
		mends:  func() { replica.Resume(); master.Resume() },
		back: func() {
			g.await("the cluster is whole", func() bool { return !strings.Contains(other.Do("CLUSTER NODES"), "fail") })
		},
		apart: true,
	}
}

func masterKilled(g *ground) plot {
	master := g.sentinel.Servers[0]
	return plot{breaks: master.Kill, back: func() { g.sentinel.AwaitMaster(master) }}
}

// await polls until something is so.
func (g *ground) await(what string, so func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			g.host.Fatalf("still not after %s: %s", patience, what)
		}
	}
}
