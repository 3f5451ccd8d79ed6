package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/algorithm"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// patient is a timeout for tests that are not about timeouts, on machines that are busy.
const patient = 10 * time.Second

// bared shows a store's states.
type bared struct{ *Store }

func (b bared) State(t testing.TB, l *limiter.Limit, key string) []byte {
	t.Helper()
	kind, err := kindOf(l.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	state, err := getBytes(b.Store, b.names.build(b.hasher.Load(), kind, l, key))
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return withoutKept(state)
}

// withoutKept takes out what only the server's states have: until when they are kept.
func withoutKept(state []byte) []byte {
	const kept, envelope = 4, 8
	switch {
	case len(state) == 0:
		return state
	case state[0] == 255:
		return slices.Delete(state, envelope, envelope+kept)
	}
	return state[kept:]
}

// getBytes reads a key wherever it lies.
func getBytes(s *Store, key string) ([]byte, error) {
	text, err := s.link.do(context.Background(), key, "get", key).Text()
	return []byte(text), err
}

// only returns the client of a store on a server that is alone.
func only(s *Store) *redis.Client { return s.link.(single).Client }

// open returns a store on the server, closed at the test's end.
func open(t testing.TB, s *redistest.Server, o Options) *Store {
	t.Helper()
	if len(o.Addresses) == 0 {
		o.Addresses = []string{s.Addr()}
	}
	o.Timeout = cmp.Or(o.Timeout, patient)
	store, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// alone opens stores on one server, none of which sees another's keys.
func alone(s *redistest.Server) func(testing.TB, func() time.Time) storetest.Bared {
	return func(t testing.TB, now func() time.Time) storetest.Bared {
		return bared{open(t, s, Options{Now: now, Prefix: rand.Text() + ":", Secret: []byte("twins")})}
	}
}

func TestTwins(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	var names []string
	for _, a := range algorithm.All {
		names = append(names, a.Name())
		t.Run(a.Name(), func(t *testing.T) {
			storetest.Twins(t, alone(s), 1, 6000, a.Name())
		})
	}
	t.Run("together", func(t *testing.T) {
		storetest.Twins(t, alone(s), 2, 1000, names...)
	})
}

func FuzzTwins(f *testing.F) {
	s := redistest.Start(f, redistest.Options{})
	for i := range algorithm.All {
		f.Add(uint64(i+10), uint8(i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, i uint8) {
		name := algorithm.All[int(i)%len(algorithm.All)].Name()
		storetest.Twins(t, alone(s), seed, 400, name)
	})
}
