package redisstore

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

// halves is a link to two servers, of which the second holds what is everybody's.
type halves [2]*node

func (l halves) do(ctx context.Context, key string, args ...any) *redis.Cmd {
	return l[l.slot(key)].Do(ctx, args...)
}

func (l halves) home(_ context.Context, slot int) (*node, error) { return l[slot], nil }

func (halves) heed(int, *node, error) {}

func (halves) slot(key string) int {
	if strings.Contains(key, "{everybody}") {
		return 1
	}
	return 0
}

func (halves) masters(context.Context) ([]master, error) { return nil, nil }

func (l halves) close() error { return l[0].Close() }

// In a cluster that has lost a node, a request that another node has refused stays refused: the
// stand-in for the store knows less, and might let it pass.
func TestRefusedWhateverTheOthersSay(t *testing.T) {
	one, other := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	s := open(t, one, Options{ClearKeys: true})
	second := open(t, other, Options{})
	s.link = halves{s.link.(single).node, second.link.(single).node}

	all := &limiter.Limit{Zone: "site", Algorithm: limiter.FixedWindow, Events: 100, Window: limitOf("", 0).Window}
	own, counting := limitOf(limiter.FixedWindow, 1), limitOf(limiter.FixedWindow, 50)
	counting.Index = 1
	asks := []limiter.Ask{{Limit: all, Key: "everybody", Cost: 1}, {Limit: own, Key: "x", Cost: 1}, {Limit: counting, Key: "x", Cost: 1}}
	results := make([]limiter.Result, len(asks))
	if d, err := limiter.Take(background, s, asks, results); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	other.Kill()
	d, err := limiter.Take(background, s, asks, results)
	if err != nil || d.Allowed || d.Blamed != 1 || d.Nearest != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if r := results[0]; !r.Allowed || r.Max != 100 || r.Remaining != 0 || r.Reset != all.Window {
		t.Errorf("of the limit that cannot be asked: %+v", r)
	}
	// Who is not refused is undecided, and is charged nothing.
	asks[1].Key, asks[2].Key = "y", "y"
	if _, err := limiter.Take(background, s, asks, results); err == nil {
		t.Error("decided without the other half")
	}
	eventually(t, func() error {
		if r := take(t, s, own, "y", 0); r.Remaining != 1 {
			return errNotYet
		}
		return nil
	})
}
