package aggregator

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueBounds: one network has one place, strangers of one neighbourhood eight, and both are given back.
func TestQueueBounds(t *testing.T) {
	q, d := newQueue(), domains(t, "feedly.example")
	enter := func(stranger bool, format string, n int) {
		for i := range n {
			q.enter(inquiry{subject{addr(fmt.Sprintf(format, i)), d}, stranger})
		}
	}
	want := func(what string, strangers, acquaintances int) {
		t.Helper()
		if len(q.strangers) != strangers || len(q.acquaintances) != acquaintances {
			t.Errorf("%s: %d strangers and %d others wait, want %d and %d", what, len(q.strangers), len(q.acquaintances), strangers, acquaintances)
		}
	}
	enter(true, "192.0.2.%d", 100)
	want("a network", 1, 0)
	enter(true, "10.1.%d.1", 250)
	want("a range of networks", 1+mostNeighbours, 0)
	enter(true, "2001:db8:%x::1", 1000)
	want("an IPv6 range of them", 1+2*mostNeighbours, 0)
	enter(false, "10.1.%d.2", 100)
	want("those who are known, of the same", 1+2*mostNeighbours, 100-mostNeighbours)
	enter(true, "10.2.%d.1", 1)
	want("another neighbourhood", 2+2*mostNeighbours, 100-mostNeighbours)
	enter(true, "172.%d.0.1", 250)
	want("many", mostWaiting, 100-mostNeighbours)
	for turn := 1; len(q.strangers)+len(q.acquaintances) > 0; turn++ {
		i, _ := q.take(t.Context())
		if len(q.acquaintances) > 0 && i.stranger != (turn%strangersTurn == 0) {
			t.Fatalf("turn %d: whether a stranger goes before who is known: %v", turn, i.stranger)
		}
		q.leave(i)
	}
	if len(q.waiting) != 0 || len(q.neighbours) != 0 {
		t.Errorf("%v and %v are left", q.waiting, q.neighbours)
	}
	enter(true, "10.1.%d.1", 250)
	want("afterwards", mostNeighbours, 0)
}

// TestQueueFull: neither forgers in a whole IPv6 /32 keep out a service that nobody knows, nor those from everywhere a
// new address of one whose network is known.
func TestQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := []string{"f1.feedly.example."}
		z := &zoneFile{
			names: map[string][]string{"192.0.2.1": name, "192.0.2.2": name, "198.51.100.1": name},
			hosts: map[string][]string{"f1.feedly.example.": {"192.0.2.1", "192.0.2.2", "198.51.100.1"}},
		}
		v := running(t, Options{Resolver: z})
		d := domains(t, "feedly.example")
		v.Verify(addr("192.0.2.1"), d, time.Now())
		time.Sleep(10 * time.Second)
		flood := func(seconds int, forger func(i int) netip.Addr, client string) (found int) {
			for second := range seconds {
				for i := range 300 {
					v.Verify(forger(300*second+i), d, time.Now())
				}
				if v.Verify(addr(client), d, time.Now()) == Verified {
					return second
				}
				time.Sleep(time.Second)
			}
			return -1
		}
		if found := flood(60, func(i int) netip.Addr { return addr(fmt.Sprintf("2001:db8:%x::1", i)) }, "198.51.100.1"); found < 0 || found > 20 {
			t.Errorf("a service is found after %d seconds of forgers from one neighbourhood", found)
		}
		if found := flood(60, func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i>>8) | 64, byte(i), 0, 1}) }, "192.0.2.2"); found < 0 || found > 5 {
			t.Errorf("a neighbour of who is known is found after %d seconds of forgers from everywhere", found)
		}
		if !slices.Contains(z.asked, "192.0.2.2") || len(v.homes) != 2 {
			t.Errorf("%v", v.homes)
		}
	})
}

// TestQueueNeighbourOfService: nor does a forger with a whole IPv6 /64 beside a service that is known keep out others.
func TestQueueNeighbourOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := []string{"f1.feedly.example."}
		z := &zoneFile{
			names: map[string][]string{"2001:db8:1::1": name, "198.51.100.1": name},
			hosts: map[string][]string{"f1.feedly.example.": {"2001:db8:1::1", "198.51.100.1"}},
		}
		v := running(t, Options{Resolver: z})
		d := domains(t, "feedly.example")
		v.Verify(addr("2001:db8:1::1"), d, time.Now())
		time.Sleep(10 * time.Second)
		for i := range 600 {
			v.Verify(addr(fmt.Sprintf("2001:db8:1:2::%x", i+1)), d, time.Now())
			if i >= 100 && v.Verify(addr("198.51.100.1"), d, time.Now()) == Verified {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("a service is not found in fifty seconds of forgers beside another one")
	})
}

// TestHomes: as many networks are remembered as answers, and none for longer than its address is confirmed.
func TestHomes(t *testing.T) {
	now := time.Now()
	v, d := NewVerifier(Options{Now: func() time.Time { return now }}), domains(t, "feedly.example")
	for i := range mostAnswers + 1 {
		v.learn(subject{netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), d}, true, nil)
	}
	if n := len(v.homes); n > mostAnswers || n < mostAnswers/2 {
		t.Errorf("%d networks", n)
	}
	last := byte(mostAnswers % 256)
	beside := netip.AddrFrom4([4]byte{10, mostAnswers >> 8, last, 2})
	v.Verify(beside, d, now)
	v.Verify(netip.AddrFrom4([4]byte{192, 0, 2, 1}), d, now)
	if len(v.queue.acquaintances) != 1 || len(v.queue.strangers) != 1 {
		t.Errorf("%d are known, %d are not", len(v.queue.acquaintances), len(v.queue.strangers))
	}
	v.done(<-v.queue.acquaintances)
	v.Verify(beside, d, now.Add(keptFor))
	if len(v.queue.strangers) != 2 {
		t.Error("a network is known for longer than its address is confirmed")
	}
}
