package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A link carries commands to the server that holds a key: to the only one there is, to the
// master that sentinels name, or to the node of a cluster that serves the key's slot.
//
// It repeats a command only after an answer that says it was not run. After a timeout or a
// broken connection it may have run, and a second run would charge twice.
type link interface {
	// do sends a command that concerns a key, and perhaps others in the same slot.
	do(ctx context.Context, key string, args ...any) *redis.Cmd
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
