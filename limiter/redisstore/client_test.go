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
		{"host and port", Options{Addresses: []string{"localhost:6379"}}, ""},
		{"an IPv6 address", Options{Addresses: []string{"[::1]:6379"}}, ""},
		{"a URL", Options{Addresses: []string{"redis://user:secret@redis.example:6380/2"}}, ""},
		{"TLS", Options{Addresses: []string{"rediss://redis.example"}}, ""},
		{"a socket", Options{Addresses: []string{"unix:///run/redis.sock?db=1"}}, ""},
		{"no address", Options{}, "address: there is none"},
		{"no port", Options{Addresses: []string{"localhost"}}, "address: must be host:port or a URL"},
		{"another scheme", Options{Addresses: []string{"http://localhost"}}, "address: must be host:port or a redis://"},
		{"a password that breaks the URL", Options{Addresses: []string{"redis://user:sec/ret@localhost:6379"}}, "address: must be host:port or a redis://"},
		{"a password without a URL", Options{Addresses: []string{"user:secret@localhost:6379"}}, "address: must be a URL"},
		{"a password as a host", Options{Addresses: []string{"secret@localhost:6379"}}, "address: must be a URL"},
		{"a negative timeout", Options{Addresses: []string{"localhost:6379"}, Timeout: -1}, "timeout: must not be negative"},
		{"a negative pool", Options{Addresses: []string{"localhost:6379"}, PoolSize: -1}, "pool_size: must not be negative"},
		{"braces", Options{Addresses: []string{"localhost:6379"}, Prefix: "{weir}"}, "prefix: must not contain braces"},
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
		{"password in the URL", Options{Addresses: []string{"redis://:sesame@" + s.Addr()}}, ""},
		{"password over the URL's", Options{Addresses: []string{"redis://:wrong@" + s.Addr()}, Password: "sesame"}, ""},
		{"user", Options{Username: "gate", Password: "open"}, ""},
		{"user and database in the URL", Options{Addresses: []string{"redis://gate:open@" + s.Addr() + "/7"}}, ""},
		{"socket", Options{Addresses: []string{socket + ":sesame@" + s.Socket()}}, ""},
		{"socket and database", Options{Addresses: []string{socket + s.Socket() + "?db=2"}, Password: "sesame"}, ""},
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

// A store does not connect before it is asked, whatever a URL says, and repeats nothing.
func TestURLChangesNoManners(t *testing.T) {
	o := Options{Addresses: []string{"redis://localhost:6379?min_idle_conns=3&max_retries=5&read_timeout=1h&dial_timeout=1h&pool_size=9"}, Timeout: DefaultTimeout, PoolSize: 2}
	c, _, err := o.parse()
	if err != nil {
		t.Fatal(err)
	}
	if c.MinIdleConns != 0 || c.MaxRetries != -1 || c.ReadTimeout != DefaultTimeout || c.DialTimeout != DefaultTimeout || c.PoolSize != 2 {
		t.Errorf("%+v", c)
	}
}
