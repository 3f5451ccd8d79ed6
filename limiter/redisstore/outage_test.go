package redisstore

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// A said is an error that a server answers.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

func TestOutage(t *testing.T) {
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                      true,
		"READONLY You can't write against a read only replica.":                               true,
		"OOM command not allowed when used memory > 'maxmemory'.":                             true,
		"MISCONF Redis is configured to save RDB snapshots":                                   true,
		"BUSY Redis is busy running a script.":                                                true,
		"NOAUTH Authentication required.":                                                     true,
		"WRONGPASS invalid username-password pair or user is disabled.":                       true,
		"ERR max number of clients reached":                                                   true,
		"ERR AUTH <password> called without any password configured for the default user.":    true,
		"ERR Error running script (call to f_1): @user_script:2: -OOM command not allowed":    true,
		"CLUSTERDOWN The cluster is down":                                                     true,
		"CLUSTERDOWN Hash slot not served":                                                    false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                   false,
		"ERR Error running script (call to f_1): @user_script:2: WRONGTYPE Operation against": false,
		"NOPERM this user has no permissions to run the 'setrange' command":                   false,
		"TRYAGAIN Multiple keys request during rehashing of slot":                             false,
		"MOVED 1 127.0.0.1:2": false,
		"ERR unknown command": false,
	} {
		if got := Outage(unavailable(said(text))); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
		if !Answered(unavailable(said(text))) {
			t.Errorf("%s: is no answer", text)
		}
	}
	for _, err := range []error{io.EOF, errors.New("i/o timeout"), errCrowded} {
		if err = unavailable(err); !Outage(err) || Answered(err) {
			t.Errorf("%v: outage %t, answer %t", err, Outage(err), Answered(err))
		}
	}
	if Outage(nil) || Outage(fmt.Errorf("algorithm: none")) {
		t.Error("what is not the store's is an outage")
	}
}

// What servers really say about one key is no outage, and what they say to everybody is.
func TestOutageOfServers(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	store := open(t, s, Options{ClearKeys: true, Timeout: 5 * time.Second})
	l := limitOf(limiter.SlidingLog, 10)
	outage := func(key string) bool {
		t.Helper()
		_, err := tryTake(store, l, key, 1)
		if err == nil {
			t.Fatalf("%s: no error", key)
		}
		return Outage(err)
	}
	s.Do("CONFIG SET maxmemory 100kb")
	if !outage("full") {
		t.Error("a full server is no outage")
	}
	s.Do("CONFIG SET maxmemory 0")
	s.Do("ACL SETUSER default -evalsha -eval")
	if outage("denied") {
		t.Error("a right that is missing is an outage")
	}
	s.Do("ACL SETUSER default +@all")
	host, port := "127.0.0.1", "1"
	s.Do("REPLICAOF " + host + " " + port)
	if !outage("replica") {
		t.Error("a replica is no outage")
	}
}
