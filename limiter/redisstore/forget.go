package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// Processes that remember what the servers refused are told when an operator sets a key
// free: over one channel for all states under a prefix, by the names of the states, from which nobody
// learns who the clients are. Messages may be lost: whoever remembers has to ask again after a while.

// channel is what stands after the prefix in the name of the channel.
const channel = "freed"

const (
	// pulse is how long nothing is heard until the server is asked whether it is there, and
	// silence how long until the subscription is given up.
	pulse   = time.Second
	silence = 5 * time.Second
	// firstRest and longestRest are the longest rests before a subscription is tried again,
	// noRightRest if the server does not permit it. They have no random part below a half.
	firstRest   = 100 * time.Millisecond
	longestRest = 5 * time.Second
	noRightRest = time.Minute
)

// muted is what InspectChannel warns of.
const muted = "Redis does not permit this user the channel by which nodes tell each other of resets: they take effect on other nodes some seconds later"

func (s *Store) channel() string { return s.names.prefix + channel }

// Name returns the name of a state on the servers. It is empty as long as the secret is not
// known, which is until a call has succeeded.
func (s *Store) Name(l *limiter.Limit, key string) string {
	h := s.hasher.Load()
	kind, err := kindOf(l.Algorithm)
	if h == nil || err != nil {
		return ""
	}
	return s.names.build(h, kind, l, key)
}

// TellFreed tells all that listen that a state was reset, or given something back to. That has
// to be done before.
func (s *Store) TellFreed(ctx context.Context, l *limiter.Limit, key string) error {
	meeting, cancel := s.deadline(ctx)
	defer cancel()
	if _, err := s.meet(meeting); err != nil {
		return err
	}
	return s.tell(meeting, s.Name(l, key))
}

func (s *Store) tell(ctx context.Context, name string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return unavailable(s.link.do(ctx, name, "publish", s.channel(), name).Err())
}

// A Listener hears what the processes under a prefix tell each other, see [Store.ListenFreed].
type Listener interface {
	// ForgetName is called with the name of each state that anybody tells of.
	ForgetName(name string)
	// Clear is called each time that listening begins, since messages may have been missed before.
	Clear()
	// Heard is called, about once a second, when all that was told up to now was heard. It is not
	// called if this process may not tell anything itself: then others may not either.
	Heard()
}

// ListenFreed has a listener hear of each state that anybody tells of, until ctx is done. It
// subscribes anew whenever it loses the server.
func (s *Store) ListenFreed(ctx context.Context, l Listener) {
	for rest := firstRest; ; {
		listened, err := s.listen(ctx, l)
		if listened {
			rest = firstRest
		}
		wait := rest
		if redis.IsPermissionError(err) {
			wait = noRightRest
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		rest = min(2*rest, longestRest)
	}
}

// listen listens until it loses the server.
func (s *Store) listen(ctx context.Context, l Listener) (listened bool, err error) {
	sub, err := s.subscribe(ctx)
	if err != nil {
		return false, err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	l.Clear()
	heard := l.Heard
	if err := s.tell(ctx, ""); redis.IsPermissionError(err) { // an empty message is none
		heard = func() {}
	} else if err != nil {
		return true, err
	}
	for last := time.Now(); ; {
		m, err := sub.ReceiveTimeout(ctx, pulse)
		if err == nil {
			if m, ok := m.(*redis.Message); ok && m.Payload != "" {
				l.ForgetName(m.Payload)
			}
			last = time.Now()
			heard()
			continue
		}
		var late net.Error
		if ctx.Err() != nil || time.Since(last) >= silence || !errors.As(err, &late) || !late.Timeout() {
			return true, err
		}
		if err := sub.Ping(ctx); err != nil {
			return true, err
		}
	}
}

// subscribe subscribes at one of the servers: what one is told, all of them tell.
func (s *Store) subscribe(ctx context.Context) (*redis.PubSub, error) {
	meeting, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	servers, err := s.link.masters(meeting)
	if err == nil && len(servers) == 0 {
		err = errors.New("no server is known")
	}
	if err != nil {
		return nil, unavailable(err)
	}
	sub := servers[rand.IntN(len(servers))].Subscribe(meeting, s.channel())
	if _, err := sub.ReceiveTimeout(meeting, s.opts.Timeout); err != nil {
		sub.Close()
		return nil, unavailable(err)
	}
	return sub, nil
}

// InspectChannel returns a warning if the user may not tell others of resets, or not hear of
// them. The error says that no server could be reached.
func (s *Store) InspectChannel(ctx context.Context) ([]Warning, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	servers, err := s.link.masters(ctx)
	if err != nil || len(servers) == 0 {
		return nil, unavailable(err)
	}
	// An empty message is none.
	err = servers[0].Do(ctx, "publish", s.channel(), "").Err()
	if err == nil {
		var sub *redis.PubSub
		if sub, err = s.subscribe(ctx); err == nil {
			sub.Close()
		}
	}
	switch {
	case redis.IsPermissionError(err):
		return []Warning{{servers[0].addr, muted, err.Error()}}, nil
	case err != nil:
		return nil, unavailable(err)
	}
	return nil, nil
}
