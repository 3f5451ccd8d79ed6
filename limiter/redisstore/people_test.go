package redisstore

import (
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
