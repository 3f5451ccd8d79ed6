package redisstore

import (
	"os"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// files returns the files of a client.
func files(c *redistest.Certificates) *TLS {
	return &TLS{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}
}

func TestTLS(t *testing.T) {
	own, other := redistest.NewCertificates(t), redistest.NewCertificates(t)
	s := redistest.Start(t, redistest.Options{TLS: own, Password: "sesame"})
	named, misnamed := files(own), files(own)
	named.ServerName, misnamed.ServerName = redistest.ServerName, "redis.example"
	secure := []string{"rediss://" + s.Addr()}
	for i, c := range []struct {
		name string
		o    Options
		want string // of the error
	}{
		{"files", Options{TLS: files(own)}, ""},
		{"files and a URL", Options{TLS: files(own), Addresses: secure}, ""},
		{"server name", Options{TLS: named}, ""},
		{"another name", Options{TLS: misnamed}, "not redis.example"},
		{"an authority that nobody knows", Options{Addresses: secure}, "certificate"},
		{"another authority", Options{TLS: &TLS{CA: other.CA, Cert: own.ClientCert, Key: own.ClientKey}}, "certificate"},
		{"no certificate of its own", Options{TLS: &TLS{CA: own.CA}}, "store unavailable"},
		{"one that the server does not know", Options{TLS: &TLS{CA: own.CA, Cert: other.ClientCert, Key: other.ClientKey}}, "store unavailable"},
		{"no such file", Options{TLS: &TLS{CA: own.CA + ".old"}}, "tls: ca: open"},
		{"no certificate in it", Options{TLS: &TLS{CA: own.Key}}, "tls: ca: no certificate in"},
		{"not a pair", Options{TLS: &TLS{CA: own.CA, Cert: own.ClientCert, Key: own.Key}}, "tls: cert and key: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Password = "sesame"
			l := limitOf(limiter.SlidingWindow, 10)
			l.Index = i
			_, err := tryTake(open(t, s, c.o), l, "k", 1)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!isUnavailable(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "sesame"):
				t.Errorf("%v repeats the password", err)
			}
		})
	}
}

// Certificates may be renewed, or come late: a new connection uses what the files hold.
func TestCertificatesAreRenewed(t *testing.T) {
	c := redistest.NewCertificates(t)
	s := redistest.Start(t, redistest.Options{TLS: c})
	key, err := os.ReadFile(c.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(c.ClientKey); err != nil {
		t.Fatal(err)
	}
	store := open(t, s, Options{TLS: files(c)})
	l := limitOf(limiter.SlidingWindow, 10)
	if _, err := tryTake(store, l, "k", 1); !isUnavailable(err) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a key: got %v", err)
	}
	if err := os.WriteFile(c.ClientKey, key, 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, store, l, "k", 1)

	c.Renew()
	s.Restart() // which breaks the connection
	eventually(t, func() error { _, err := tryTake(store, l, "k", 1); return err })
}

// Sentinels, their servers, and the nodes of a cluster are spoken to alike.
func TestTLSEverywhere(t *testing.T) {
	c := redistest.NewCertificates(t)
	o := redistest.Options{TLS: c, Password: "sesame"}
	l := limitOf(limiter.SlidingWindow, 10)
	t.Run("sentinels", func(t *testing.T) {
		set := redistest.StartSentinels(t, o)
		store := watched(t, set, Options{TLS: files(c), Password: "sesame"})
		take(t, store, l, "k", 1)
		if set.Servers[0].Do("DBSIZE") == ":0" {
			t.Error("the master has nothing")
		}
	})
	t.Run("cluster", func(t *testing.T) {
		store := spread(t, redistest.StartCluster(t, o), Options{TLS: files(c), Password: "sesame"})
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			if r := take(t, store, l, key, 1); r.Remaining != 9 {
				t.Errorf("%s: %+v", key, r)
			}
		}
	})
}
