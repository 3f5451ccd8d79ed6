package redislist

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
)

// waits are how long a keeper that watches waits for what.
type waits struct {
	// poll is how often it looks by itself which version there is, more or less a tenth.
	poll time.Duration
	// quiet is after how long without a message it asks whether the connection lives.
	quiet time.Duration
	// retry is the first wait after a failure; it doubles up to patience, and any of them is
	// cut at random by up to a half, so that many nodes do not come back at once.
	retry, patience time.Duration
}

var usual = waits{poll: time.Minute, quiet: 15 * time.Second, retry: 100 * time.Millisecond, patience: 5 * time.Second}

// sweepEvery is how often what is over is taken out of what is told.
const sweepEvery = time.Minute

// Watch implements [blocklist.Keeper]. A server that lost the whole list is given back the last one
// that was seen here, or by whom [Keeper.Recall] tells of: a restart without a disk must not open all
// doors.
func (k *Keeper) Watch(ctx context.Context, changed func(blocklist.Content), trouble func(error)) error {
	k.mu.Lock()
	w := &watch{Keeper: k, changed: changed, trouble: trouble, seen: k.last, swept: time.Now()}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.last = w.seen
		k.mu.Unlock()
	}()
	for wait := k.wait.retry; ; {
		before := w.known
		err := w.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.tell(err)
		if w.known && (!before || w.heard) {
			wait = k.wait.retry // it worked for a while
		}
		w.heard = false
		pause := time.NewTimer(wait/2 + rand.N(wait/2))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
		wait = min(2*wait, k.wait.patience)
	}
}

// A watch follows the list by one subscription after the other.
type watch struct {
	*Keeper

	changed func(blocklist.Content)
	trouble func(error)
	seen
	heard  bool  // whether the session got as far as a subscription
	bad    bool  // whether trouble was told
	unread error // what of content cannot be read
	denied error // a [*Denied] if the list can only be read
	swept  time.Time
}

// fault is what is wrong with a list that is followed all the same.
func (w *watch) fault() error {
	switch {
	case w.unread == nil:
		return w.denied
	case w.denied == nil:
		return w.unread
	}
	return errors.Join(w.denied, w.unread)
}

func (w *watch) tell(err error) {
	if w.trouble != nil && (err != nil || w.bad) {
		w.trouble(err)
	}
	w.bad = err != nil
}

// session subscribes, reads the list, and then follows what is published until something fails.
func (w *watch) session(ctx context.Context) error {
	sub, at, err := w.wire.Subscribe(ctx, w.name("state"), w.name("news"))
	if err != nil {
		return err
	}
	defer sub.Close()
	// A read on the connection does not end with ctx by itself.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	if _, err := sub.ReceiveTimeout(ctx, leastTimeout); err != nil {
		return fmt.Errorf("%w: redis: subscribe: %w", limiter.ErrUnavailable, err)
	}
	if err := w.askRights(ctx); err != nil {
		return err
	}
	// What is published from here on is heard, so that nothing is lost between reading and
	// listening.
	if err := w.read(ctx); err != nil {
		return err
	}
	w.heard = true
	return w.follow(ctx, sub, at)
}

// askRights finds out whether the list can be changed. Not to be permitted that is no error.
func (w *watch) askRights(ctx context.Context) error {
	w.denied = nil
	err := w.permitted(ctx)
	var denied *Denied
	if errors.As(err, &denied) {
		w.denied, err = denied, nil
	}
	return err
}

func (w *watch) follow(ctx context.Context, sub *redis.PubSub, at string) error {
	poll := w.nextPoll()
	asked := false // whether the connection lives
	for {
		message, err := sub.ReceiveTimeout(ctx, max(time.Millisecond, min(w.wait.quiet, time.Until(poll))))
		var timeout interface{ Timeout() bool }
		switch {
		case err == nil:
			asked = false
			if m, ok := message.(*redis.Message); ok {
				if err := w.hear(ctx, m.Payload); err != nil {
					return err
				}
			}
		case !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil:
			return fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, err)
		case time.Now().Before(poll) && asked:
			return fmt.Errorf("%w: redis: the subscription is dead", limiter.ErrUnavailable)
		case time.Now().Before(poll):
			asked = true
			if err := sub.Ping(ctx); err != nil {
				return fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, err)
			}
		}
		if time.Now().Before(poll) {
			continue
		}
		poll = w.nextPoll()
		if err := w.look(ctx, at); err != nil {
			return err
		}
	}
}

func (w *watch) nextPoll() time.Time {
	tenth := w.wait.poll / 10
	return time.Now().Add(w.wait.poll - tenth + rand.N(2*tenth))
}

// errMoved says that the list is at another server now.
var errMoved = fmt.Errorf("%w: redis: another server has the list now", limiter.ErrUnavailable)

// look finds out whether a version was missed.
func (w *watch) look(ctx context.Context, at string) error {
	if time.Since(w.swept) > sweepEvery {
		w.swept = time.Now()
		w.content = w.content.Sweep(w.now())
		w.changed(w.content)
	}
	home, err := w.wire.Home(ctx, w.name("state"))
	if err != nil {
		return err
	}
	if w.denied != nil { // or is no more
		if err := w.askRights(ctx); err != nil {
			return err
		}
	}
	s, err := w.state(ctx)
	if err != nil {
		return err
	}
	if s.version != w.content.Version || s.born != w.content.Born || w.unread != nil {
		if err := w.read(ctx); err != nil {
			return err
		}
	}
	if home != at {
		return errMoved
	}
	w.tell(w.fault())
	return nil
}

// hear learns from a message.
func (w *watch) hear(ctx context.Context, text string) error {
	if number, long := strings.CutPrefix(text, "version "); long {
		version, err := strconv.ParseUint(number, 10, 64)
		switch {
		case err != nil:
			return nil // not ours
		case version <= w.content.Version:
			return w.doubt(ctx)
		}
		return w.read(ctx)
	}
	rec, err := blocklist.ParseRecord(text)
	switch {
	case err != nil:
		return w.read(ctx) // from a newer version of us, perhaps
	case rec.Version == w.content.Version+1 && w.content.Born != "":
		w.set(w.content.Patch(rec.Change, rec.Version))
		return nil
	case rec.Version <= w.content.Version:
		return w.doubt(ctx)
	}
	return w.read(ctx)
}

// doubt finds out whether a version that is not after the known one was only told late, or is of
// another list than ours.
func (w *watch) doubt(ctx context.Context) error {
	s, err := w.state(ctx)
	if err != nil || s.version >= w.content.Version && s.born == w.content.Born {
		return err
	}
	return w.read(ctx)
}

func (w *watch) set(c blocklist.Content) {
	w.content, w.known = c, true
	w.changed(c)
}

// read reads the whole list, and gives back what of it was lost. What is published meanwhile comes after it and is
// put on top.
func (w *watch) read(ctx context.Context) error {
	for range attempts {
		content, s, err := w.load(ctx)
		var parts *Unreadable
		if err != nil && !errors.As(err, &parts) {
			return err
		}
		if !w.lost(s) || w.denied != nil {
			w.unread = err
			w.set(content)
			w.tell(w.fault())
			return nil
		}
		if err := w.restore(ctx, content, s); err != nil && !errors.Is(err, errAgain) {
			return err
		}
	}
	return fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, errAgain)
}

// Unreadable is what is wrong with single rules and bans of a list, which is otherwise read.
// A newer version of Weir may have written them.
type Unreadable struct{ Problems []error }

// Error implements error.
func (u *Unreadable) Error() string { return errors.Join(u.Problems...).Error() }

// Unwrap returns the problems.
func (u *Unreadable) Unwrap() []error { return u.Problems }

// Load implements [blocklist.Keeper]. Beside an error of the type [*Unreadable] there is what could
// be read.
func (k *Keeper) Load(ctx context.Context) (blocklist.Content, error) {
	content, _, err := k.load(ctx)
	return content, err
}

// load reads the list, all of it of one line: what was read while the server lost it is neither the old list
// nor the new one.
func (k *Keeper) load(ctx context.Context) (blocklist.Content, state, error) {
	for range attempts {
		content, s, bad := k.loadOnce(ctx)
		var parts *Unreadable
		if bad != nil && !errors.As(bad, &parts) {
			return blocklist.Content{}, s, bad
		}
		after, err := k.state(ctx)
		if err != nil {
			return blocklist.Content{}, s, err
		}
		if after.born == s.born && after.version >= s.version {
			return content, s, bad
		}
	}
	return blocklist.Content{}, state{}, fmt.Errorf("%w: redis: %w", limiter.ErrUnavailable, errAgain)
}

func (k *Keeper) loadOnce(ctx context.Context) (blocklist.Content, state, error) {
	s, err := k.state(ctx)
	if err != nil {
		return blocklist.Content{}, s, err
	}
	c := blocklist.Change{Mode: &s.mode}
	var bad Unreadable
	err = k.each(ctx, k.name("rules"), func(name, text string) {
		r, err := blocklist.ParseRule(text)
		if err != nil {
			bad.Problems = append(bad.Problems, err)
			return
		}
		c.Put = append(c.Put, r)
	})
	if err != nil {
		return blocklist.Content{}, s, err
	}
	err = k.each(ctx, k.name("bans"), func(id, text string) {
		_, text, _ = strings.Cut(text, " ")
		b, err := blocklist.ParseBan(text)
		if err != nil {
			bad.Problems = append(bad.Problems, err)
			return
		}
		c.Ban = append(c.Ban, b)
	})
	if err != nil {
		return blocklist.Content{}, s, err
	}
	content := blocklist.Content{Born: s.born}.Patch(c, s.version)
	if len(bad.Problems) > 0 {
		return content, s, &bad
	}
	return content, s, nil
}

// each walks over a hash in steps, so that nobody else waits for a large one. What changes meanwhile may be
// met or not.
func (k *Keeper) each(ctx context.Context, key string, f func(field, value string)) error {
	seen := make(map[string]bool)
	for cursor := "0"; ; {
		reply, err := k.wire.Do(ctx, key, "hscan", key, cursor, "count", 1000).Slice()
		if err != nil {
			return err
		}
		if len(reply) != 2 {
			return fmt.Errorf("%w: redis: an answer that cannot be read", limiter.ErrUnavailable)
		}
		cursor, _ = reply[0].(string)
		pairs, _ := reply[1].([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			field, _ := pairs[i].(string)
			value, _ := pairs[i+1].(string)
			if !seen[field] {
				seen[field] = true
				f(field, value)
			}
		}
		if cursor == "0" || cursor == "" {
			return nil
		}
	}
}
