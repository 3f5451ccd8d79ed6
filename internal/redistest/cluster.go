package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// A ClusterSet is a Redis Cluster.
type ClusterSet struct {
	// Masters serve the slots at the beginning, as many each.
	Masters []*Server
	// Replicas are as many; each follows the master at its index.
	Replicas []*Server
}

const slots = 16384

// StartCluster starts a cluster of three masters with a replica each, where a node is called
// down after a second, and the slots of the others are served meanwhile. It returns when
// all nodes agree.
func StartCluster(t testing.TB, o Options) *ClusterSet {
	t.Helper()
	o.Config = append(o.Config[:len(o.Config):len(o.Config)],
		"cluster-node-timeout 1000",
		"cluster-require-full-coverage no",
		"cluster-replica-validity-factor 0",
		"repl-diskless-sync-delay 0",
	)
	if o.Password != "" {
		o.Config = append(o.Config, "masterauth "+o.Password)
	}
	c := &ClusterSet{}
	const masters = 3
	for i := range 2 * masters {
		s := Reserve(t, o)
		s.bus = freePort(t)
		s.Restart()
		s.Do(fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1))
		if i < masters {
			s.Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*slots/masters, (i+1)*slots/masters-1))
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	all := c.all()
	for _, s := range all[1:] {
		all[0].Do(fmt.Sprintf("CLUSTER MEET 127.0.0.1 %s %d", s.Port(), s.bus))
	}
	for _, s := range all {
		s.await("knows all nodes", func() bool {
			nodes, err := s.try("CLUSTER NODES")
			return err == nil && strings.Count(nodes, " connected") == len(all) && !strings.Contains(nodes, "handshake")
		})
	}
	for i, s := range c.Replicas {
		s.Do("CLUSTER REPLICATE " + c.Masters[i].ID())
	}
	for _, s := range c.Replicas {
		s.await("replicates", s.linked)
	}
	for _, s := range all {
		s.await("sees a cluster that is well", func() bool {
			state, err := s.try("CLUSTER INFO")
			nodes, err2 := s.try("CLUSTER NODES")
			return err == nil && err2 == nil && strings.Contains(state, "cluster_state:ok") &&
				strings.Count(nodes, "slave") == len(c.Replicas)
		})
	}
	return c
}

func (c *ClusterSet) all() []*Server {
	return append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...)
}

// Addrs returns the addresses of the masters.
func (c *ClusterSet) Addrs() []string {
	var all []string
	for _, s := range c.Masters {
		all = append(all, s.Addr())
	}
	return all
}

// AwaitMaster waits until a replica has taken its master's place, and the masters that are
// left know it.
func (c *ClusterSet) AwaitMaster(replica *Server) {
	id := replica.ID()
	for _, s := range c.all() {
		if s.proc == nil {
			continue
		}
		s.await("knows the new master", func() bool {
			nodes, err := s.try("CLUSTER NODES")
			for line := range strings.Lines(nodes) {
				if strings.HasPrefix(line, id) {
					return err == nil && strings.Contains(line, "master") && !strings.Contains(line, "fail")
				}
			}
			return false
		})
	}
}

// Move moves a slot from one node to another as redis-cli does, calling between, if not nil,
// when half of its keys have been moved.
func (c *ClusterSet) Move(slot int, from, to *Server, between func()) {
	to.Do(fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, from.ID()))
	from.Do(fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, to.ID()))
	keys := from.List(fmt.Sprintf("CLUSTER GETKEYSINSLOT %d 100000", slot))
	for i, key := range keys {
		if i == len(keys)/2 && between != nil {
			between()
		}
		from.Do(fmt.Sprintf("MIGRATE 127.0.0.1 %s %s 0 5000", to.Port(), key))
	}
	// Keys that came meanwhile are on the target already: the source asks for them there.
	for _, s := range []*Server{to, from} {
		s.Do(fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, to.ID()))
	}
	for _, s := range c.Masters {
		if s != to && s != from && s.proc != nil {
			s.try(fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, to.ID()))
		}
	}
}

// ID returns the name of a node in its cluster.
func (s *Server) ID() string { return s.Do("CLUSTER MYID") }
