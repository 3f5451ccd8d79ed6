package layer

import (
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/memstore"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
	"github.com/weirhq/caddy-weir/limiter/storetest"
)

// All layers around a Redis keep its contract.
func TestStackContract(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	storetest.Exercise(t, func(t testing.TB, now func() time.Time) limiter.Store {
		server.Do("FLUSHALL")
		store, err := redisstore.New(redisstore.Options{
			Addresses: []string{server.Addr()}, Timeout: 10 * time.Second, Secret: []byte("s"), Now: now,
		})
		if err != nil {
			t.Fatal(err)
		}
		b := NewBreaker(store, BreakerOptions{Lane: store.Node, Outage: redisstore.Outage})
		cache := NewDenyCache(DenyCacheOptions{Name: store.Name, Now: steady(now)})
		t.Cleanup(func() {
			b.Close()
			store.Close()
		})
		return renewing{cache.Around(Fallback(memstore.New(memstore.Options{Now: now}))(b)), store}
	})
}
