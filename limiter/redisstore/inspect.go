package redisstore

import (
	"context"
	_ "embed"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Warning is something about a server that counts will suffer from.
type Warning struct {
	// Server is its address.
	Server string
	// Message is one of a few constant texts.
	Message string
	// Detail is what the message is about: a setting, a version, a command.
	Detail string
}

// What Inspect warns of.
const (
	evicts  = "Redis may evict counts, and the secret that keys are hashed by, before their time: set maxmemory-policy to volatile-ttl"
	replica = "this Redis is a replica, and takes no writes"
	old     = "this Redis is older than any that is supported, 6.0 and later"
	denied  = "Redis does not permit this user a command that counting needs"
	unseen  = "Redis does not permit this user INFO, so that its settings could not be checked"
)

// oldest is the oldest major version that is supported.
const oldest = 6

//go:embed probe.lua
var probeLua string

var probeScript = newScript(probeLua)

// Inspect looks at every server that takes writes, and returns what an operator should know:
// a policy that evicts counts, a replica, an old version, commands that the user may not
// run. The error says that a server could not be reached; it is worth trying again later.
func (s *Store) Inspect(ctx context.Context) ([]Warning, error) {
	meeting, cancel := s.deadline(ctx)
	defer cancel()
	if _, err := s.meet(meeting); err != nil {
		return nil, err
	}
	servers, err := s.link.masters(meeting)
	if err != nil {
		return nil, unavailable(err)
	}
	var all []Warning
	for _, m := range servers {
		found, err := s.inspect(ctx, m)
		if err != nil {
			return nil, unavailable(err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *Store) inspect(ctx context.Context, m master) (found []Warning, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	add := func(message, detail string) { found = append(found, Warning{m.addr, message, detail}) }

	info, err := m.Info(ctx).Result()
	switch {
	case redis.IsPermissionError(err):
		add(unseen, "info")
	case err != nil:
		return nil, err
	default:
		inspectInfo(info, add)
	}

	key := s.names.prefix + "probe:{" + m.tag + "}"
	reply, err := s.run(ctx, probeScript, []string{key}, nil).StringSlice()
	switch {
	case redis.IsPermissionError(err):
		// The script itself may not be called.
		add(denied, err.Error())
		return found, nil
	case err != nil:
		return nil, err
	}
	for i := 0; i+1 < len(reply); i += 2 {
		if why := reply[i+1]; permission(why) {
			add(denied, strings.ToLower(reply[i])+": "+why)
		}
	}
	return found, nil
}

// permission reports whether a command in a script failed for want of rights.
func permission(why string) bool {
	for _, words := range []string{"NOPERM", "ACL failure", "can't run this command", "can't access at least one of the keys"} {
		if strings.Contains(why, words) {
			return true
		}
	}
	return false
}

// inspectInfo reads what INFO says.
func inspectInfo(info string, add func(message, detail string)) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory_policy":
			if strings.HasPrefix(value, "allkeys-") {
				add(evicts, value)
			}
		case "role":
			if value == "slave" {
				add(replica, value)
			}
		case "redis_version":
			major, _, _ := strings.Cut(value, ".")
			if n, err := strconv.Atoi(major); err == nil && n < oldest {
				add(old, value)
			}
		}
	}
}
