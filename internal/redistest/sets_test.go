package redistest

import (
	"strings"
	"testing"
	"time"
)

func TestSentinels(t *testing.T) {
	start := time.Now()
	set := StartSentinels(t, Options{Password: "sesame", TLS: NewCertificates(t)})
	t.Logf("started in %s", time.Since(start))
	master := set.Master()
	if master != set.Servers[0] {
		t.Fatalf("the master is %v", master)
	}
	master.Do("SET a 1")
	set.Servers[1].await("has the key", func() bool { return set.Servers[1].Caught(master) })
	start = time.Now()
	master.Kill()
	if got := set.AwaitMaster(master).Do("GET a"); got != "1" {
		t.Errorf("GET after the failover: got %q", got)
	}
	t.Logf("failover took %s", time.Since(start))
}

func TestCluster(t *testing.T) {
	start := time.Now()
	c := StartCluster(t, Options{})
	t.Logf("started in %s", time.Since(start))
	// The slot of "a" is 15495, which the last master serves.
	const slot = 15495
	from, to := c.Masters[2], c.Masters[0]
	from.Do("SET a 1")
	if reply, err := to.try("GET a"); err != nil || !strings.HasPrefix(reply, "-MOVED 15495 ") {
		t.Fatalf("got %q, %v", reply, err)
	}
	between := false
	c.Move(slot, from, to, func() { between = true })
	if got := to.Do("GET a"); got != "1" || !between {
		t.Errorf("after the move: got %q", got)
	}
	start = time.Now()
	c.Masters[1].Kill()
	c.AwaitMaster(c.Replicas[1])
	t.Logf("failover took %s", time.Since(start))
}
