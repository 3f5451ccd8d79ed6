package redisstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/people"
)

var _ people.Sharer = (*Store)(nil)

// countPeople adds ARGV[2...] to the last of the HyperLogLogs, keeps it for ARGV[1] milliseconds,
// and counts all of them together.
var countPeople = newScript(`local newest = KEYS[#KEYS]
if #ARGV > 1 then
	redis.call('PFADD', newest, unpack(ARGV, 2))
	redis.call('PEXPIRE', newest, ARGV[1])
end
return redis.call('PFCOUNT', unpack(KEYS))
`)

// mostPeople is the most people that one script call adds: they are on Lua's stack.
const mostPeople = 1000

// peopleKinds are the letters of the kinds of people in key names. They must never change.
var peopleKinds = [...]byte{people.User: 'u', people.Browser: 'b'}

// CountPeople implements [people.Sharer] by HyperLogLogs, one for each address, kind and
// generation. The server is not told who they are: people too are hashed by the stores' secret.
func (s *Store) CountPeople(ctx context.Context, address string, kind people.Kind, generations []int64, seen []string, keep time.Duration) (n int64, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return 0, err
	}
	keys := make([]string, len(generations))
	for i, g := range generations {
		keys[i] = s.names.people(h, peopleKinds[kind], g, address)
	}
	if len(seen) == 0 {
		seen = []string{""} // and none of it is sent
	}
	for some := range slices.Chunk(seen, mostPeople) {
		args := make([]any, 0, 4+len(keys)+len(some))
		args = append(args, "evalsha", countPeople.sha, len(keys))
		for _, k := range keys {
			args = append(args, k)
		}
		args = append(args, keep.Milliseconds()+1)
		for _, person := range some {
			if person != "" {
				args = append(args, h.Append(nil, person))
			}
		}
		if n, err = s.runPeople(ctx, keys[0], args); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// runPeople calls the script by its name, and with its text if the server does not know it.
func (s *Store) runPeople(ctx context.Context, key string, args []any) (int64, error) {
	cmd := s.link.do(ctx, key, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		args[0], args[1] = "eval", countPeople.text
		cmd = s.link.do(ctx, key, args...)
	}
	n, err := cmd.Int64()
	return n, unavailable(err)
}

// people builds the name of one generation of those who were seen from an address. No zone has
// an empty name, so nothing else is called so:
//
//	weir::u82345:{5BvCmQPQUIxrNnvyXhGzZA}
func (n *names) people(h *limiter.Hasher, kind byte, generation int64, address string) string {
	b := append(append([]byte(nil), n.prefix...), ':', kind)
	b = strconv.AppendInt(b, generation, 10)
	b = append(b, ':', '{')
	b = n.subject(b, h, address)
	return string(append(b, '}'))
}
