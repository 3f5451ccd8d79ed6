package redisstore

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/caddy-weir/limiter"
)

// An order is one call of take.lua, which answers some calls one after the other.
type order struct {
	calls  []*call
	script *script
	args   []any
	cmd    *redis.StringCmd
}

// carry takes calls to the server, and answers all of them. A server of its own gets them as one
// order; a node of a cluster gets an order for each slot, all of them at once.
//
// Orders whose script the server does not know are sent once more, the first of them with the
// script's text: they have not run. Nothing else is repeated.
func (n *node) carry(ctx context.Context, calls []*call) {
	var room [1]order
	orders := room[:0]
	for together := range n.together(calls) {
		orders = append(orders, n.order(together))
	}
	n.dispatch(ctx, orders)
	var unknown []order
	for i := range orders {
		if o := &orders[i]; redis.HasErrorPrefix(o.cmd.Err(), "NOSCRIPT") {
			if !slices.ContainsFunc(unknown, func(u order) bool { return u.script.sha == o.script.sha }) {
				o.args[0], o.args[1] = "eval", &o.script.text
			}
			unknown = append(unknown, *o)
		} else {
			o.answer()
		}
	}
	if unknown == nil {
		return
	}
	n.dispatch(ctx, unknown)
	for i := range unknown {
		unknown[i].answer()
	}
}

// together yields the calls that one order can answer.
func (n *node) together(calls []*call) func(yield func([]*call) bool) {
	return func(yield func([]*call) bool) {
		if !n.clustered {
			yield(calls)
			return
		}
		slices.SortStableFunc(calls, func(a, b *call) int { return a.slot - b.slot })
		for first, i := 0, 1; i <= len(calls); i++ {
			if i < len(calls) && calls[i].slot == calls[first].slot {
				continue
			}
			if !yield(calls[first:i]) {
				return
			}
			first = i
		}
	}
}

// order packs calls into one.
func (n *node) order(calls []*call) order {
	packed, keys, needed := 0, 0, set(0)
	for _, c := range calls {
		packed += len(c.packed)
		keys += len(c.keys)
		needed |= c.needed
	}
	// The first call lends its room, which is enough if it is alone.
	o := order{calls: calls, script: takeScript(needed), args: slices.Grow(calls[0].args[:0], 5+keys)}
	calls[0].args = o.args
	o.args = append(o.args, "evalsha", &o.script.sha, keys)
	for _, c := range calls {
		for i := range c.keys {
			o.args = append(o.args, &c.keys[i])
		}
	}
	requests := calls[0].packed
	if len(calls) > 1 {
		requests = make([]byte, 0, packed)
		for _, c := range calls {
			requests = append(requests, c.packed...)
		}
	}
	o.args = append(o.args, requests)
	if n.now != nil {
		o.args = append(o.args, int64(limiter.At(n.now())))
	}
	return o
}

// dispatch sends orders and waits for what becomes of each.
func (n *node) dispatch(ctx context.Context, orders []order) {
	for i := range orders {
		orders[i].cmd = redis.NewStringCmd(ctx, orders[i].args...)
	}
	// The errors stand in the commands.
	if len(orders) == 1 {
		_ = n.Process(ctx, orders[0].cmd)
		return
	}
	pipe := n.Pipeline()
	for i := range orders {
		_ = pipe.Process(ctx, orders[i].cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// answer replies to all calls of an order.
func (o *order) answer() {
	text, err := o.cmd.Result()
	r := reply{rest: text}
	if err == nil {
		err = r.begin()
	}
	for _, c := range o.calls {
		if err != nil {
			c.reply(answer{}, err)
			continue
		}
		c.reply(r.next(len(c.keys)))
	}
}
