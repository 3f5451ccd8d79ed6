package redisstore

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// forAll begins the errors that a server answers whatever it is asked, for a while or until
// somebody mends it.
var forAll = []string{
	"LOADING", "READONLY", "MASTERDOWN", "OOM", "MISCONF", "NOREPLICAS", "BUSY",
	"NOAUTH", "WRONGPASS", "DENIED", "CLUSTERDOWN",
}

// inside stands in such errors where older servers begin them with ERR, in most cases since a
// script has met the error.
var inside = []string{"OOM ", "READONLY ", "MISCONF ", "NOREPLICAS ", "max number of clients", "AUTH", "invalid DB index", "DB index is out of range"}

// Outage reports whether an error of a call says that a server is away, or answers nobody. Other
// errors are about one key, slot or command: they say nothing about other calls.
func Outage(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return errors.Is(err, limiter.ErrUnavailable)
	}
	text := reply.Error()
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "ERR":
		return slices.ContainsFunc(inside, func(part string) bool { return strings.Contains(text, part) })
	case "CLUSTERDOWN":
		// Others of its slots may be served.
		return !strings.Contains(text, "slot")
	}
	return slices.Contains(forAll, word)
}

// Answered reports whether an error of a call is what a server said, so that it can be reached.
func Answered(err error) bool { return replied(err) }
