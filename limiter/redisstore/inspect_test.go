package redisstore

import (
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
)

// minimal is all that the store needs, as docs/redis.md says it.
const minimal = "-@all +eval +evalsha +get +set +getrange +setrange +del +strlen +pexpire +time +select +ping +info +hello +auth"

func inspect(t *testing.T, s *Store) []Warning {
	t.Helper()
	found, err := s.Inspect(background)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestInspect(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Config: []string{
		"user least on >open ~weir:* resetchannels " + minimal,
		"user deaf on >open ~weir:* resetchannels " + minimal + " -info",
		"user unable on >open ~weir:* resetchannels " + minimal + " -setrange -strlen",
		"user nameless on >open ~weir:* resetchannels " + minimal + " -evalsha",
		"user elsewhere on >open ~other:* resetchannels " + minimal,
	}})
	as := func(user string) *Store {
		return open(t, s, Options{Username: user, Password: "open", Secret: []byte("s")})
	}
	for _, c := range []struct {
		name  string
		store *Store
		want  []Warning // of which Detail is a part
	}{
		{"all is well", open(t, s, Options{}), nil},
		{"a user with the least rights", as("least"), nil},
		{"no INFO", as("deaf"), []Warning{{s.Addr(), unseen, "info"}}},
		{"two commands are missing", as("unable"), []Warning{{s.Addr(), denied, "strlen"}, {s.Addr(), denied, "setrange"}}},
		{"scripts cannot be called", as("nameless"), []Warning{{s.Addr(), denied, "evalsha"}}},
		{"other keys", as("elsewhere"), []Warning{{s.Addr(), denied, "key"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := inspect(t, c.store)
			for i := range found {
				if i < len(c.want) && strings.Contains(found[i].Detail, c.want[i].Detail) {
					found[i].Detail = c.want[i].Detail
				}
			}
			if len(found) != len(c.want) {
				t.Fatalf("got %+v, want %+v", found, c.want)
			}
			for i := range found {
				if found[i] != c.want[i] {
					t.Errorf("got %+v, want %+v", found[i], c.want[i])
				}
			}
		})
	}
	if keys := s.Do("EXISTS weir:probe:{any}"); keys != ":0" {
		t.Error("a key was left behind")
	}

	// L97: counts that may go at any time.
	s.Do("CONFIG SET maxmemory-policy allkeys-lru")
	if found := inspect(t, open(t, s, Options{})); len(found) != 1 || found[0] != (Warning{s.Addr(), evicts, "allkeys-lru"}) {
		t.Errorf("got %+v", found)
	}
	s.Do("CONFIG SET maxmemory-policy volatile-ttl")
	if found := inspect(t, open(t, s, Options{})); len(found) != 0 {
		t.Errorf("got %+v", found)
	}
	s.Do("REPLICAOF 127.0.0.1 1")
	if found := inspect(t, open(t, s, Options{Secret: []byte("s")})); len(found) != 1 || found[0].Message != replica {
		t.Errorf("got %+v", found)
	}
	s.Kill()
	if _, err := as("least").Inspect(background); !isUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestInspectCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	c.Masters[1].Do("CONFIG SET maxmemory-policy allkeys-random")
	c.Masters[2].Do("ACL SETUSER default -setrange")
	found := inspect(t, spread(t, c, Options{}))
	for _, want := range []Warning{{c.Masters[1].Addr(), evicts, "allkeys-random"}, {c.Masters[2].Addr(), denied, "setrange"}} {
		seen := 0
		for _, w := range found {
			if w.Server == want.Server && w.Message == want.Message && strings.Contains(w.Detail, want.Detail) {
				seen++
			}
		}
		if seen != 1 || len(found) != 2 {
			t.Errorf("got %+v, want %+v", found, want)
		}
	}
}

func TestInspectVersions(t *testing.T) {
	for info, want := range map[string]int{
		"redis_version:5.0.14\r\n": 1,
		"redis_version:6.0.0\r\n":  0,
		"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": 0,
		"redis_version:10.0\r\n":     0,
		"redis_version:unstable\r\n": 0,
		"":                           0,
	} {
		got := 0
		inspectInfo(info, func(message, _ string) {
			if message == old {
				got++
			}
		})
		if got != want {
			t.Errorf("%q: %d warnings, want %d", info, got, want)
		}
	}
}
