package redisstore

import (
	"cmp"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// watched opens a store on the master that sentinels name, closed at the test's end.
func watched(t testing.TB, set *redistest.SentinelSet, o Options) *Store {
	t.Helper()
	o.Addresses, o.Sentinel, o.Timeout = set.Addrs(), redistest.MasterName, cmp.Or(o.Timeout, patient)
	store, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestSentinelStore(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		return watched(t, set, Options{Now: now, Prefix: rand.Text() + ":"})
	})
}

var errNotYet = errors.New("not yet")

// steady is the timeout of the stories: so long that nothing is undecided because the machine is
// busy, but only where no server answers.
const steady = time.Second

// perSubject asks one limit of 20 in an hour.
func perSubject(subject string) []limiter.Ask {
	return []limiter.Ask{{Limit: limitOf(limiter.SlidingWindow, 20), Key: subject, Cost: 1}}
}

// The master dies while everybody asks: no call fails otherwise than by being undecided, or
// takes too long, and what the replica had is not allowed again.
func TestMasterDies(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	master, replica := set.Servers[0], set.Servers[1]
	stores := []*Store{watched(t, set, Options{Timeout: steady}), watched(t, set, Options{Timeout: steady})}
	p := pound(t, stores, 40, perSubject)
	p.decided(40 * 20 * 3)
	within(t, "before", p.counts(), 20)
	p.end()
	eventually(t, func() error {
		if !replica.Caught(master) {
			return errNotYet
		}
		return nil
	})

	// Forty subjects are at their limit, forty are new.
	p = pound(t, stores, 80, perSubject)
	p.decided(100)
	old := p.counts()
	master.Kill()
	set.AwaitMaster(master)
	p.recovered(func(s *Store) error { return s.Ping(background) })
	p.end()
	p.inTime(steady)
	after := p.counts()
	within(t, "on the new master", after, 20)
	within(t, "on the old master", old, 20)
	for i := range 40 {
		if n := after[strconv.Itoa(i)]; n > 0 {
			t.Errorf("%d passed for %d, which was at its limit", n, i)
		}
	}
}

// L95: the sentinels change the master, and the old one stays as a replica that takes no
// writes. Its connections are dropped, and the new one is asked in the same call.
func TestMasterIsDemoted(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	master := set.Servers[0]
	// With a secret of their own nothing is written when a connection begins.
	stores := []*Store{watched(t, set, Options{Timeout: steady, Secret: []byte("s")})}
	p := pound(t, stores, 100, perSubject)
	p.decided(500)
	set.Failover()
	now := set.AwaitMaster(master)
	// The sentinels would do this within some seconds, and close all connections as well.
	master.Do("REPLICAOF 127.0.0.1 " + now.Port())
	p.recovered(func(s *Store) error { return s.Ping(background) })
	// Until it was told so, the old master counted on, and nobody has that any more.
	within(t, "on both masters", p.counts(), 2*20)
	p.decided(100 * 20 * 3)
	p.counts()
	p.decided(1000)
	within(t, "at their limit on the new master", p.counts(), 0)
	p.end()
	p.inTime(steady)
}

// A sentinel that was cut off still names an old master. It does not bring it back by being the only
// one that answers; most of them may, for they have agreed on it.
func TestOlderConfiguration(t *testing.T) {
	old, now := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	one := open(t, now, Options{})
	l := newSentinel("mymaster", make([]*redis.Client, 3), func(addr string) *node { return &node{addr: addr, Client: only(one)} }, time.Second)
	for _, step := range []struct {
		word
		heard int
		want  string
	}{
		{word{addr: old.Addr(), epoch: 4}, 1, old.Addr()}, // better than nothing
		{word{addr: now.Addr(), epoch: 5}, 1, now.Addr()},
		{word{addr: old.Addr(), epoch: 4}, 1, now.Addr()},
		{word{addr: now.Addr(), epoch: 5}, 2, now.Addr()},
		{word{addr: old.Addr(), epoch: 0}, 2, old.Addr()}, // they were set up anew
	} {
		err := l.goBy(step.word, step.heard, nil)
		if addr := l.current.Load().addr; addr != step.want || (err == nil) != (addr == step.addr) {
			t.Errorf("epoch %d, as %d say: %s, want %s (%v)", step.epoch, step.heard, addr, step.want, err)
		}
	}
}

// A user in the addresses is the sentinels', and needs few rights.
func TestUserOfSentinels(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{Password: "sesame"})
	var addrs []string
	for _, s := range set.Sentinels {
		s.Do("ACL SETUSER guard on >open -@all +ping +sentinel|master +sentinel|get-master-addr-by-name")
		s.Do("ACL SETUSER default -sentinel")
		addrs = append(addrs, "redis://guard:open@"+s.Addr())
	}
	l := limitOf(limiter.FixedWindow, 10)
	for _, c := range []struct {
		addrs []string
		want  string // of the error
	}{{addrs, ""}, {set.Addrs(), "does not permit"}} {
		store, err := New(Options{Addresses: c.addrs, Sentinel: redistest.MasterName, Password: "sesame", Timeout: patient})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		_, err = tryTake(store, l, "k", 1)
		if c.want == "" && err != nil || c.want != "" && (!isUnavailable(err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.addrs, err, c.want)
		}
	}
}

// Sentinels that are down or hang do not matter as long as one answers.
func TestSentinelsAway(t *testing.T) {
	set := redistest.StartSentinels(t, redistest.Options{})
	set.Sentinels[0].Kill()
	set.Sentinels[1].Pause()
	store := watched(t, set, Options{Timeout: time.Second})
	l := limitOf(limiter.FixedWindow, 10)
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
	set.Sentinels[2].Kill()
	if r := take(t, store, l, "k", 1); !r.Allowed {
		t.Errorf("with no sentinel left: %+v", r)
	}
	set.Sentinels[1].Resume()

	wrong, err := New(Options{Addresses: set.Addrs(), Sentinel: "other", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wrong.Close() })
	if _, err := tryTake(wrong, l, "k", 1); !isUnavailable(err) || !strings.Contains(err.Error(), `knows no master "other"`) {
		t.Errorf("got %v", err)
	}
}
