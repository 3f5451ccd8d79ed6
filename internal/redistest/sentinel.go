package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// MasterName is the name by which the sentinels of tests know their master.
const MasterName = "main"

// A SentinelSet is a master with replicas, and sentinels that put a replica in its place
// when it is down.
type SentinelSet struct {
	// Servers are the redis-servers; the first one is the master at the beginning.
	Servers []*Server
	// Sentinels watch them.
	Sentinels []*Server
}

// StartSentinels starts a master with one replica, and three sentinels that call it down
// after half a second. It returns when they know of each other.
func StartSentinels(t testing.TB, o Options) *SentinelSet {
	t.Helper()
	set := &SentinelSet{}
	master := Start(t, o)
	o.Config = append(o.Config[:len(o.Config):len(o.Config)],
		"replicaof 127.0.0.1 "+master.Port(), "repl-diskless-sync-delay 0")
	if o.Password != "" {
		o.Config = append(o.Config, "masterauth "+o.Password)
	}
	set.Servers = []*Server{master, Start(t, o)}
	for range 3 {
		s := Reserve(t, Options{TLS: o.TLS, sentinel: true})
		s.Configure(
			"sentinel monitor "+MasterName+" 127.0.0.1 "+master.Port()+" 2",
			"sentinel down-after-milliseconds "+MasterName+" 500",
			"sentinel failover-timeout "+MasterName+" 3000",
		)
		if o.Password != "" {
			s.Configure("sentinel auth-pass " + MasterName + " " + o.Password)
		}
		s.Restart()
		set.Sentinels = append(set.Sentinels, s)
	}
	for _, s := range set.Sentinels {
		s.await("knows the replica and the other sentinels", func() bool {
			state, err := s.try("INFO sentinel")
			return err == nil && strings.Contains(state, "status=ok") &&
				strings.Contains(state, "slaves=1,sentinels=3")
		})
	}
	set.Servers[1].await("replicates", func() bool { return set.Servers[1].linked() })
	return set
}

// Addrs returns the addresses of the sentinels.
func (s *SentinelSet) Addrs() []string {
	var all []string
	for _, sentinel := range s.Sentinels {
		all = append(all, sentinel.Addr())
	}
	return all
}

// Master returns the server that most sentinels call the master.
func (s *SentinelSet) Master() *Server {
	for _, server := range s.Servers {
		votes := 0
		for _, sentinel := range s.Sentinels {
			state, _ := sentinel.try("INFO sentinel") // one that is paused or dead has no vote
			if strings.Contains(state, fmt.Sprintf("address=%s,", server.Addr())) {
				votes++
			}
		}
		if votes > len(s.Sentinels)/2 {
			return server
		}
	}
	return nil
}

// AwaitMaster waits until another server than old is the master, and takes writes.
func (s *SentinelSet) AwaitMaster(old *Server) *Server {
	var now *Server
	s.Sentinels[0].await("names another master", func() bool {
		now = s.Master()
		return now != nil && now != old && now.is("role:master")
	})
	return now
}

// Failover makes the sentinels change the master although it is well.
func (s *SentinelSet) Failover() { s.Sentinels[0].Do("SENTINEL FAILOVER " + MasterName) }

// linked reports whether a replica has caught up with its master.
func (s *Server) linked() bool { return s.is("master_link_status:up") }

func (s *Server) is(what string) bool {
	state, err := s.try("INFO replication")
	return err == nil && strings.Contains(state, what)
}

// Caught reports whether a replica holds all that its master has written.
func (s *Server) Caught(master *Server) bool {
	offset := func(s *Server, name string) string {
		state, _ := s.try("INFO replication")
		_, rest, _ := strings.Cut(state, name+":")
		value, _, _ := strings.Cut(rest, "\r")
		return value
	}
	want := offset(master, "master_repl_offset")
	return want != "" && offset(s, "slave_repl_offset") == want
}
