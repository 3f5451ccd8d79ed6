package peer

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// client returns a client with go-redis' defaults, save for the pool if one is given.
func client(s Setup, pool int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: pool})
}

// RedisRate is github.com/go-redis/redis_rate: GCRA in a script, one call a request.
func RedisRate(s Setup) (Limiter, error) {
	c := client(s, 0)
	l := redis_rate.NewLimiter(c)
	limit := redis_rate.Limit{Rate: int(s.Events), Burst: int(s.Events), Period: s.Window}
	return Limiter{
		Allow: func(ctx context.Context, key string) (bool, error) {
			r, err := l.Allow(ctx, key, limit)
			return err == nil && r.Allowed > 0, err
		},
		Close: c.Close,
	}, nil
}

// UluleRedis is github.com/ulule/limiter on Redis: a fixed window in a script, one call a
// request.
func UluleRedis(s Setup) (Limiter, error) {
	c := client(s, 0)
	store, err := ululeredis.NewStore(c)
	if err != nil {
		return Limiter{}, err
	}
	return ululeBy(store, s, c.Close), nil
}

// ThrottledRedis is github.com/throttled/throttled on Redis: GCRA by a read, and a write if
// nobody wrote in between.
func ThrottledRedis(s Setup) (Limiter, error) {
	c := client(s, 0)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return Limiter{}, err
	}
	return throttledBy(store, s, c.Close)
}

// bare decides by GCRA with one time stamp a key: about the least that a limiter on Redis can
// do. Its arguments are the interval between two events and the span of a full burst, both in
// microseconds.
var bare = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + ARGV[1]
if at - now > tonumber(ARGV[2]) then
	return 0
end
redis.call('SET', KEYS[1], string.format('%.0f', at), 'PX', math.floor((at - now) / 1000) + 1)
return 1
`)

// EvalSha is one call of a script a request, without any library for limits around it, by
// go-redis with its defaults or with a pool of so many connections.
func EvalSha(pool int) Open {
	return func(s Setup) (Limiter, error) {
		c := client(s, pool)
		span := s.Window.Microseconds()
		every := float64(span) / float64(s.Events)
		return Limiter{
			Allow: func(ctx context.Context, key string) (bool, error) {
				n, err := bare.Run(ctx, c, []string{"bare:" + key}, every, span).Int()
				return n == 1, err
			},
			Close: c.Close,
		}, nil
	}
}

// Ping decides nothing: a round trip with the least that Redis can do.
func Ping(s Setup) (Limiter, error) {
	c := client(s, 0)
	return Limiter{
		Allow: func(ctx context.Context, _ string) (bool, error) { return true, c.Ping(ctx).Err() },
		Close: c.Close,
	}, nil
}
