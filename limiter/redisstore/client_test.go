package redisstore

import (
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // of the error
	}{
		{"host and port", Options{Address: "localhost:6379"}, ""},
		{"an IPv6 address", Options{Address: "[::1]:6379"}, ""},
		{"a URL", Options{Address: "redis://user:secret@redis.example:6380/2"}, ""},
		{"TLS", Options{Address: "rediss://redis.example"}, ""},
		{"a socket", Options{Address: "unix:///run/redis.sock?db=1"}, ""},
		{"no address", Options{}, "address: must be host:port or a URL"},
		{"no port", Options{Address: "localhost"}, "address: must be host:port or a URL"},
		{"another scheme", Options{Address: "http://localhost"}, "address: must be host:port or a redis://"},
		{"a password that breaks the URL", Options{Address: "redis://user:sec/ret@localhost:6379"}, "address: must be host:port or a redis://"},
		{"a negative timeout", Options{Address: "localhost:6379", Timeout: -1}, "timeout: must not be negative"},
		{"a negative pool", Options{Address: "localhost:6379", PoolSize: -1}, "pool_size: must not be negative"},
		{"braces", Options{Address: "localhost:6379", Prefix: "{weir}"}, "prefix: must not contain braces"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.o)
			if err == nil {
				s.Close()
			}
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "sec"):
				t.Errorf("%v repeats the password", err)
			}
		})
	}
}

func TestConnections(t *testing.T) {
	s := redistest.Start(t, redistest.Options{
		Password: "sesame",
		Unix:     true,
		Config: []string{
			// All that the store needs.
			"user gate on >open ~weir:* resetchannels -@all +eval +evalsha +time +get +set +setnx" +
				" +getrange +setrange +strlen +pexpire +del +ping +hello +auth +select",
			"user blind on >open ~weir:* -@all +hello +auth +ping +select",
		},
	})
	socket := "unix://"
	for i, c := range []struct {
		name string
		o    Options
		want string // of the error
	}{
		{"password", Options{Password: "sesame"}, ""},
		{"password in the URL", Options{Address: "redis://:sesame@" + s.Addr()}, ""},
		{"password over the URL's", Options{Address: "redis://:wrong@" + s.Addr(), Password: "sesame"}, ""},
		{"user", Options{Username: "gate", Password: "open"}, ""},
		{"user and database in the URL", Options{Address: "redis://gate:open@" + s.Addr() + "/7"}, ""},
		{"socket", Options{Address: socket + ":sesame@" + s.Socket()}, ""},
		{"socket and database", Options{Address: socket + s.Socket() + "?db=2", Password: "sesame"}, ""},
		{"no password", Options{}, "it wants a password"},
		{"wrong password", Options{Password: "hunter2"}, "it refuses the user or password"},
		{"wrong user", Options{Username: "hunter2", Password: "open"}, "it refuses the user or password"},
		{"user who may do too little", Options{Username: "blind", Password: "open"}, "does not permit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := open(t, s, c.o)
			l := limitOf(limiter.SlidingLog, 10)
			l.Index = i
			_, err := tryTake(store, l, "k", 1)
			if c.want == "" {
				if err == nil {
					err = store.Adjust(background, []limiter.Change{{Limit: l, Key: "k", Delta: -1}})
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !isUnavailable(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v repeats the password", err)
			}
		})
	}
}
