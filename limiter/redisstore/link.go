package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// A link carries commands to the server that holds a key: to the only one there is, to the
// master that sentinels name, or to the node of a cluster that serves the key's slot.
//
// It repeats a command only after an answer that says it was not run. After a timeout or a
// broken connection it may have run, and a second run would charge twice.
type link interface {
	// do sends a command that concerns a key, and perhaps others in the same slot.
	do(ctx context.Context, key string, args ...any) *redis.Cmd
	// home returns the server that has a slot, as far as is known.
	home(ctx context.Context, slot int) (*node, error)
	// heed learns from what went wrong with a command that a server was sent, not by do,
	// for keys in a slot.
	heed(slot int, from *node, err error)
	// slot returns where a key lies. Keys in different slots cannot share a command.
	slot(key string) int
	// masters returns the servers that take writes, as far as they are known.
	masters(ctx context.Context) ([]master, error)
	// close closes all connections.
	close() error
}

// A node is one server, with the connections to it.
type node struct {
	addr string
	*redis.Client

	lane      lane
	number    int              // among the servers of the store
	clustered bool             // it answers only for keys in one slot at a time
	now       func() time.Time // in place of its clock, if not nil
}

// A master is a node with a hash tag that places a key on it.
type master struct {
	*node
	tag string
}

// single is the link to a server that is alone.
type single struct{ *node }

func (l single) do(ctx context.Context, _ string, args ...any) *redis.Cmd {
	return l.Do(ctx, args...)
}

func (l single) home(context.Context, int) (*node, error) { return l.node, nil }

func (single) heed(int, *node, error) {}

func (single) slot(string) int { return 0 }

func (l single) masters(context.Context) ([]master, error) { return []master{{l.node, "any"}}, nil }

func (l single) close() error { return l.Close() }

// failed is a command that could not be sent.
func failed(ctx context.Context, err error, args []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetErr(err)
	return cmd
}

// replied reports whether an error is a server's answer, so that the connection is well.
func replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// notHere reports whether a node of a cluster says that keys are on another one, or on several, so that it
// did nothing.
func notHere(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err)
}

// readOnly reports whether a server says that it takes no writes, also by a script.
func readOnly(err error) bool {
	return redis.IsReadOnlyError(err) || redis.HasErrorPrefix(err, "READONLY")
}

// wrongType reports whether a server says that a key holds what is no string. Servers before Redis
// 7 put in front where in the script that was found.
func wrongType(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || replied(err) && strings.Contains(err.Error(), ": WRONGTYPE ")
}

// Node returns the number of the server that decides about these asks, so that whoever watches
// over servers can tell them apart: 0 for the only one there is, and for the master that sentinels
// name, whichever that is; in a cluster one for each address that there ever was, from 0 on. It
// is -1 if several servers decide, or if it is not known which. Node asks nobody and does not
// wait.
func (s *Store) Node(asks []limiter.Ask) int {
	l, clustered := s.link.(*cluster)
	if !clustered {
		return 0
	}
	h, number := s.hasher.Load(), -1
	if h == nil {
		return -1
	}
	var room [128]byte
	for i := range asks {
		if i > 0 && asks[i].Key == asks[i-1].Key {
			continue
		}
		n := l.owners[slotOfTag(s.names.subject(room[:0], h, asks[i].Key))].Load()
		if n == nil || number >= 0 && n.number != number {
			return -1
		}
		number = n.number
	}
	return number
}
