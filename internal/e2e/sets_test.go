package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// cluster start starts a Redis Cluster; $CLUSTER becomes the addresses of its masters.
//
// cluster lose <n> kills the master of that number, from 0, and waits until a replica has
// taken its place; cluster do <n> <command> sends a master a command, and writes the reply
// to stdout.
func (s *story) clusterSet(ts *testscript.TestScript, neg bool, args []string) error {
	usage := errors.New("usage: cluster start | cluster lose <n> | cluster do <n> <command>")
	if neg || len(args) == 0 {
		return usage
	}
	if args[0] == "start" && len(args) == 1 {
		s.cluster = redistest.StartCluster(s.t, redistest.Options{})
		ts.Setenv("CLUSTER", strings.Join(s.cluster.Addrs(), " "))
		return nil
	}
	if s.cluster == nil || len(args) < 2 {
		return usage
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || n >= len(s.cluster.Masters) {
		return usage
	}
	switch {
	case args[0] == "lose" && len(args) == 2:
		s.cluster.Masters[n].Kill()
		s.cluster.AwaitMaster(s.cluster.Replicas[n])
		return nil
	case args[0] == "do" && len(args) > 2:
		_, err := fmt.Fprintln(ts.Stdout(), s.cluster.Masters[n].Do(strings.Join(args[2:], " ")))
		return err
	}
	return usage
}

// sentinels start <line>... starts a master and a replica that speak TLS only and have those
// lines in their configuration, with three sentinels; $SENTINELS becomes the sentinels'
// addresses, and $CERTS the folder of the certificates.
//
// sentinels lose kills the master and waits until the replica has taken its place.
func (s *story) sentinelSet(ts *testscript.TestScript, neg bool, args []string) error {
	switch {
	case neg || len(args) == 0:
	case args[0] == "start":
		certificates := redistest.NewCertificates(s.t)
		s.sentinels = redistest.StartSentinels(s.t, redistest.Options{TLS: certificates, Config: args[1:]})
		ts.Setenv("SENTINELS", strings.Join(s.sentinels.Addrs(), " "))
		ts.Setenv("CERTS", filepath.Dir(certificates.CA))
		return nil
	case args[0] == "lose" && len(args) == 1 && s.sentinels != nil:
		master := s.sentinels.Master()
		master.Kill()
		s.sentinels.AwaitMaster(master)
		return nil
	}
	return errors.New("usage: sentinels start <line>... | sentinels lose")
}
