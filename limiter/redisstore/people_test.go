package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/people"
)

// Two nodes count people together, by generation and kind, and the server learns no names.
func TestCountPeople(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	open := func() *Store {
		s, err := New(Options{Addresses: []string{server.Addr()}, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	one, two := open(), open()
	count := func(s *Store, address string, kind people.Kind, generations []int64, want int64, seen ...string) {
		t.Helper()
		got, err := s.CountPeople(t.Context(), address, kind, generations, seen, time.Hour)
		if err != nil || got != want {
			t.Errorf("%s %v %v: %d, %v, want %d", address, generations, seen, got, err, want)
		}
	}
	day := []int64{7, 8}
	count(one, "192.0.2.1", people.User, day, 2, "ada", "bob")
	count(two, "192.0.2.1", people.User, day, 3, "bob", "cy")
	count(one, "192.0.2.1", people.User, day, 3)
	count(one, "192.0.2.1", people.Browser, day, 1, "agent")
	count(one, "192.0.2.2", people.User, day, 0)
	count(two, "192.0.2.1", people.User, []int64{8, 9}, 4, "di")
	count(two, "192.0.2.1", people.User, []int64{9, 10}, 1)
	var town []string
	for i := range 5 * mostPeople {
		town = append(town, fmt.Sprint("user", i))
	}
	if n, err := one.CountPeople(t.Context(), "192.0.2.3", people.User, day, town, time.Hour); err != nil || n < 4500 || n > 5500 {
		t.Errorf("a town of 5,000: %d, %v", n, err)
	}

	keys := server.Do(`EVAL "return table.concat(redis.call('keys', '*'), ' ')" 0`)
	for _, secret := range []string{"192.0.2", "ada"} {
		if strings.Contains(keys, secret) {
			t.Errorf("the server is told of %q: %s", secret, keys)
		}
	}
	if !strings.Contains(keys, "weir::u8:{") {
		t.Errorf("keys are called %s", keys)
	}
	for _, key := range strings.Fields(keys) {
		if strings.HasPrefix(key, "weir::") && server.Do("TTL "+key) == ":-1" {
			t.Errorf("%s is kept for ever", key)
		}
	}
	server.Kill()
	if _, err := one.CountPeople(t.Context(), "192.0.2.1", people.User, day, []string{"em"}, time.Hour); !errors.Is(err, limiter.ErrUnavailable) {
		t.Errorf("without a server: %v", err)
	}
}

// Nodes that share a cluster, or servers behind sentinels, see each other's people as those on one server do.
func TestPeopleOfAllNodes(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) Options{
		"a server": func(t *testing.T) Options {
			return Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}}
		},
		"a cluster": func(t *testing.T) Options {
			return Options{Addresses: redistest.StartCluster(t, redistest.Options{}).Addrs()}
		},
		"sentinels": func(t *testing.T) Options {
			return Options{Addresses: redistest.StartSentinels(t, redistest.Options{}).Addrs(), Sentinel: redistest.MasterName}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t)
			o.Timeout = 5 * time.Second
			node := func() *people.Estimator {
				s, err := New(o)
				if err != nil {
					t.Fatal(err)
				}
				e := people.New(people.Options{Sharer: s, Told: func(err error) {
					if err != nil {
						t.Logf("people are counted alone for now: %v", err)
					}
				}})
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan struct{})
				go func() {
					defer close(done)
					e.Run(ctx)
				}()
				t.Cleanup(func() {
					cancel()
					<-done
					s.Close()
				})
				return e
			}
			one, two := node(), node()
			// Several addresses lie in several slots of a cluster.
			const addresses = 8
			address := func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
			awaitAll := func(what string, all func(i int) bool) {
				t.Helper()
				for deadline := time.Now().Add(time.Minute); ; {
					missing := 0
					for i := range addresses {
						if !all(i) {
							missing++
						}
					}
					if missing == 0 {
						return
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s: not so of %d addresses", what, missing)
					}
					<-time.After(50 * time.Millisecond)
				}
			}
			users := func(e *people.Estimator, i int) int64 { return e.Seen(address(i)).Users }
			for i := range addresses {
				one.See(address(i), people.User, "ada")
				one.See(address(i), people.User, "bob")
			}
			for i := range addresses {
				two.See(address(i), people.User, "bob")
				two.See(address(i), people.User, fmt.Sprint("cy", i))
			}
			// Whoever told last knows of all three.
			awaitAll("one node knows whom the other saw", func(i int) bool { return max(users(one, i), users(two, i)) == 3 })
			for i := range addresses {
				one.See(address(i), people.User, "di")
				two.See(address(i), people.User, "em")
			}
			awaitAll("of five", func(i int) bool {
				return max(users(one, i), users(two, i)) == 5 && min(users(one, i), users(two, i)) >= 4
			})
		})
	}
}
