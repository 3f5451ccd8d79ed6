// Package redislist keeps the shared block list on Redis, or Valkey, where all servers find it.
//
// A change is one call of a script: it checks, writes, counts the version on, and publishes what it
// did. So every server hears of one ban without reading a million others; whoever missed a version
// reads the list anew. All keys have one hash tag, and lie in one slot of a cluster.
package redislist

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/limiter"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

const (
	// leastTimeout is the least that a call may take: nobody waits for the list in a request.
	leastTimeout = 5 * time.Second
	// connections to a server at most.
	connections = 4
	// attempts to undo while others change the list.
	attempts = 10
)

// A Keeper keeps a list on Redis. Make it by [Open], and close it by Close. It is safe for
// concurrent use.
type Keeper struct {
	wire *redisstore.Wire
	name func(what string) string // of a key
	now  func() time.Time
	wait waits
	// bounds of the list; smaller in tests.
	bounds bounds
	// restored is told of a list that was given back.
	restored func(blocklist.Content)

	mu   sync.Mutex
	last seen // by whoever watched last
}

// seen is a list as it was seen last. A watch begins with what the one before it saw: a server that
// lost the list while a configuration took the place of another is given it back too.
type seen struct {
	content blocklist.Content
	known   bool // whether content was ever read
}

type bounds struct{ rules, bans, records, bytes int }

// Open returns the keeper of the list under the options' prefix. It does not connect. now is the
// clock by which changes are dated, nil for the system's.
func Open(o redisstore.Options, now func() time.Time) (*Keeper, error) {
	o.Timeout = max(o.Timeout, leastTimeout)
	o.PoolSize = connections
	wire, err := redisstore.Open(o)
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	name := func(what string) string { return wire.Prefix() + "{block}:" + what }
	return &Keeper{
		wire: wire, name: name, now: now, wait: usual,
		bounds: bounds{blocklist.MaxRules, blocklist.MaxBans, blocklist.MaxTrail, blocklist.MaxTrailBytes},
	}, nil
}

// Recall tells the keeper which list an earlier process saw last, before it watches: a server that
// has lost the list is given it back, also if no process lived that long. restored, if not nil, is told of
// each list that was given back.
func (k *Keeper) Recall(c blocklist.Content, restored func(blocklist.Content)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.restored = restored
	if c.Version > 0 && !k.last.known {
		k.last = seen{c, true}
	}
}

// Prefix is how the names of all keys begin.
func (k *Keeper) Prefix() string { return k.wire.Prefix() }

// Close closes the connections. Calls that still run fail.
func (k *Keeper) Close() error { return k.wire.Close() }

// Name returns what a ban in this list calls a key, or the text of a network, see
// [blocklist.Network]. It makes no secret.
func (k *Keeper) Name(ctx context.Context, key string) (string, error) {
	name, err := k.wire.AppendName(ctx, nil, key)
	return string(name), err
}

// keys are those of the script, in its order.
func (k *Keeper) keys() []string {
	var keys []string
	for _, what := range []string{"rules", "bans", "rule-ends", "ban-ends", "state", "trail"} {
		keys = append(keys, k.name(what))
	}
	return keys
}

//go:embed change.lua
var changeScript string

// Apply implements [blocklist.Keeper] in one atomic step on the server. An error of the server
// wraps [limiter.ErrUnavailable].
func (k *Keeper) Apply(ctx context.Context, c blocklist.Change) (uint64, error) {
	now := k.now()
	if err := c.Prepare(now); err != nil {
		return 0, err
	}
	if c.Undo == 0 {
		return k.change(ctx, c, terms{})
	}
	rec, err := k.record(ctx, c.Undo)
	if err != nil {
		return 0, err
	}
	for range attempts {
		version, current, err := k.current(ctx, rec.Change.Ops(), rec.Undo.Ops())
		if err != nil {
			return 0, err
		}
		undoing, err := rec.Undoing(c, func(word, id string) string { return current[word+" "+id] }, now)
		if err != nil {
			return 0, err
		}
		made, err := k.change(ctx, undoing, terms{version: strconv.FormatUint(version, 10)})
		if !errors.Is(err, errAgain) {
			return made, err
		}
	}
	return 0, fmt.Errorf("%w: redis: the list changes too fast", limiter.ErrUnavailable)
}

// errAgain says that the list has not the version any more that a change was made for.
var errAgain = errors.New("the list was changed meanwhile")

// terms are what a change asks of the list beyond itself.
type terms struct {
	version string // that it must have; empty for any
	gift    *gift  // nil for none
}

// change runs the script.
func (k *Keeper) change(ctx context.Context, c blocklist.Change, t terms) (uint64, error) {
	keys, ops := k.keys(), c.Ops()
	args := make([]any, 0, 18+len(keys)+6*len(ops))
	args = append(args, "eval", changeScript, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	_, head, _ := strings.Cut(blocklist.Record{Change: c}.Head(), " by=")
	auto := ""
	if c.Auto {
		auto = "auto"
	}
	g := gift{of: "*", line: newLine()}
	if t.gift != nil {
		g = *t.gift
	}
	args = append(args, k.name("news"), "by="+head, auto, t.version, g.least, g.of, g.line, k.bounds.rules, k.bounds.bans, k.bounds.records, k.bounds.bytes)
	for _, op := range ops {
		gone := op
		gone.Text = ""
		args = append(args, op.Word, op.ID, op.Text, gone.Line(), millis(op.Ends), millis(op.Forgotten))
	}
	reply, err := k.wire.Do(ctx, keys[0], args...).Result()
	if err != nil {
		return 0, unsure(err)
	}
	if text, ok := reply.(string); ok {
		return strconv.ParseUint(text, 10, 64)
	}
	return 0, refusal(reply, ops, k.bounds.rules)
}

// unsure says of a call that ended without an answer that the server may have done it, or do it yet.
func unsure(err error) error {
	var reply redis.Error
	var op *net.OpError
	switch {
	case errors.As(err, &reply), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return err
	case errors.As(err, &op) && op.Op == "dial":
		return err
	case op == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF):
		return err // no server was found
	}
	return fmt.Errorf("%w: whether the change was made is not known, see the trail once there is an answer", err)
}

func millis(at time.Time) string {
	if at.IsZero() {
		return "0"
	}
	return strconv.FormatInt(max(1, at.UnixMilli()), 10)
}

// Denied says that the user of Redis lacks rights that a change of the list takes, see docs/redis.md. Nothing was
// changed.
type Denied struct {
	// Commands that he may not use, or not with the keys and the channel of the list.
	Commands []string
}

// Error implements error.
func (d *Denied) Error() string {
	return fmt.Sprintf("redis: it does not permit this user %s, which changes of the block list need: nothing was changed", strings.Join(d.Commands, ", "))
}

// Unwrap makes it an error of the server.
func (d *Denied) Unwrap() error { return limiter.ErrUnavailable }

// permitted asks whether the user may change the list; the error is then a [*Denied]. Servers before 7.0
// do not know.
func (k *Keeper) permitted(ctx context.Context) error {
	_, err := k.change(ctx, blocklist.Change{}, terms{})
	var reply redis.Error
	if errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "NOPERM") {
		return &Denied{[]string{"EVAL"}}
	}
	return err
}

// refusal reads why the script made no change. most is how many rules there may be.
func refusal(reply any, ops []blocklist.Op, most int) error {
	parts, _ := reply.([]any)
	var words []string
	for _, part := range parts {
		word, _ := part.(string)
		words = append(words, word)
	}
	if len(words) < 2 {
		return fmt.Errorf("%w: redis: an answer that cannot be read", limiter.ErrUnavailable)
	}
	switch words[0] {
	case "denied":
		return &Denied{words[1:]}
	case "again":
		return errAgain
	case "full":
		return blocklist.Refuse(fmt.Errorf("rules: must be at most %d, got %s", most, words[1]))
	}
	var problems []error
	for _, word := range words[1:] {
		if i, err := strconv.Atoi(word); err == nil && i >= 0 && i < len(ops) {
			problems = append(problems, ops[i].Missing())
		}
	}
	return blocklist.Refuse(errors.Join(problems...))
}

// current reads the version, and what the list holds of the things that ops are about, by word and ID.
func (k *Keeper) current(ctx context.Context, several ...[]blocklist.Op) (uint64, map[string]string, error) {
	s, err := k.state(ctx)
	if err != nil {
		return 0, nil, err
	}
	current := map[string]string{"mode ": s.mode.String()}
	ids := map[string][]any{}
	for _, ops := range several {
		for _, op := range ops {
			ids[op.Word] = append(ids[op.Word], op.ID)
		}
	}
	for word, key := range map[string]string{"rule": k.name("rules"), "ban": k.name("bans")} {
		if len(ids[word]) == 0 {
			continue
		}
		values, err := k.wire.Do(ctx, key, append([]any{"hmget", key}, ids[word]...)...).Slice()
		if err != nil {
			return 0, nil, err
		}
		for i, value := range values {
			text, _ := value.(string)
			if word == "ban" {
				_, text, _ = strings.Cut(text, " ")
			}
			current[word+" "+ids[word][i].(string)] = text
		}
	}
	return s.version, current, nil
}

// state is what a list is beside its rules and bans.
type state struct {
	version uint64 // 0 for a list that was never written
	mode    blocklist.Mode
	moded   bool   // whether mode was ever set
	born    string // the list's line
}

func (k *Keeper) state(ctx context.Context) (state, error) {
	key := k.name("state")
	values, err := k.wire.Do(ctx, key, "hmget", key, "version", "mode", "born").Slice()
	if err != nil {
		return state{}, err
	}
	s := state{mode: blocklist.Enforce}
	if len(values) != 3 || values[0] == nil {
		return s, nil
	}
	number, _ := values[0].(string)
	if s.version, err = strconv.ParseUint(number, 10, 64); err != nil {
		return state{}, fmt.Errorf("%s: version: %w", key, err)
	}
	s.born, _ = values[2].(string)
	word, _ := values[1].(string)
	if s.moded = word != ""; !s.moded {
		return s, nil
	}
	if s.mode, err = blocklist.ParseMode(word); err != nil {
		return state{}, fmt.Errorf("%s: mode: %w", key, err)
	}
	return s, nil
}

// Trail implements [blocklist.Keeper].
func (k *Keeper) Trail(ctx context.Context, n int) ([]blocklist.Record, error) {
	if n <= 0 {
		return nil, nil
	}
	key := k.name("trail")
	texts, err := k.wire.Do(ctx, key, "lrange", key, 0, n-1).StringSlice()
	if err != nil {
		return nil, err
	}
	out := make([]blocklist.Record, 0, len(texts))
	for _, text := range texts {
		rec, err := blocklist.ParseRecord(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, rec)
	}
	return out, nil
}

// record finds the change that led to a version.
func (k *Keeper) record(ctx context.Context, version uint64) (blocklist.Record, error) {
	all, err := k.Trail(ctx, blocklist.MaxTrail)
	if err != nil {
		return blocklist.Record{}, err
	}
	for _, rec := range all {
		if rec.Version == version {
			return rec, nil
		}
	}
	return blocklist.Record{}, blocklist.Refuse(fmt.Errorf("undo %d: there is no record of this change", version))
}

var _ blocklist.Keeper = (*Keeper)(nil)
