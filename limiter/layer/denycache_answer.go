package layer

import (
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weirhq/caddy-weir/limiter"
)

const (
	// mostCosts is of how many costs a state's refusals are kept apart.
	mostCosts = ways / 2
	// doubt is how long one request that asks the store about a refusal stands for all others.
	doubt = 100 * time.Millisecond
)

// An answer is what the store said to one ask of a request that it refused. Times are in
// nanoseconds since the cache was made.
type answer struct {
	numbers uint64 // of the limit, see numbersOf
	cost    int64
	asked   int64 // when the store was
	until   int64 // when a refusal ends, or what was allowed is not worth telling any more
	check   int64 // when the store may be asked again, if it has to be
	curious int64 // when it may be, for the sake of other limits
	reset   int64 // when the key is as good as new
	left    int64
	at      limiter.Instant // the store's clock
	refused bool
	firm    bool // only an operator can shorten it
}

// due returns when the store has to be asked again about what an answer says.
func (c *DenyCache) due(a *answer) int64 {
	if !a.firm {
		return a.asked + int64(c.o.Cap)
	}
	return min(a.asked+int64(c.o.HeardCap), max(a.asked, c.heard.Load())+int64(c.o.Cap))
}

// usable returns until when an answer can be given without asking the store.
func (c *DenyCache) usable(a *answer) int64 { return min(a.until, c.due(a)) }

// recall answers a request from memory if that knows of a refusal. doubted is set if it knows
// of one that this request is to ask the store about.
func (c *DenyCache) recall(now int64, asks []limiter.Ask, results []limiter.Result) (known, doubted bool) {
	by, found := -1, answer{}
	counts := false
	for i := range asks {
		a := &asks[i]
		counts = counts || a.Limit.Ceiling > 0
		if !memorable(a) {
			continue
		}
		if r, ok, old := c.refusal(now, a); ok && by < 0 {
			by, found = i, r
		} else {
			doubted = doubted || old
		}
	}
	if by < 0 || counts {
		return false, doubted
	}
	strange := false
	for i := range asks {
		if i == by {
			results[i] = found.tell(now, &asks[i])
		} else if results[i], known = c.companion(now, &asks[i]); !known {
			strange = true
		}
	}
	return !strange || !c.ask(now, &asks[by]), doubted
}

// refusal returns the answer that refuses an ask, if that may refuse a request. old is set if
// there is one, but the store should be asked.
func (c *DenyCache) refusal(now int64, a *limiter.Ask) (found answer, ok, old bool) {
	id, numbers := c.id(a.Limit, a.Key), numbersOf(a.Limit)
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.set(id)
	if at == nil {
		return answer{}, false, false
	}
	var best *answer
	costs := 0
	for i := range at.ids {
		if at.ids[i] != id {
			continue
		}
		r := &at.answers[i]
		if r.numbers != numbers {
			// To count under other numbers may shorten what these had to wait.
			at.ids[i], s.forgot = 0, now
			continue
		}
		if !r.refused || now >= r.until {
			continue
		}
		costs++
		if r.cost <= a.Cost && (best == nil || r.cost > best.cost) {
			best = r
		}
	}
	switch {
	case best == nil, !decides(a), best.cost < a.Cost && costs < mostCosts:
		return answer{}, false, false
	case now >= c.due(best) && now >= best.check:
		best.check = now + int64(doubt)
		return answer{}, false, true
	}
	return *best, true, false
}

// ask reports whether a request that a key's refusal refuses may ask the store all the same, to
// know what its other limits say: one may, as if the refusal were doubted.
func (c *DenyCache) ask(now int64, a *limiter.Ask) bool {
	id, numbers := c.id(a.Limit, a.Key), numbersOf(a.Limit)
	s := c.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, may := s.set(id), true
	if at == nil {
		return may
	}
	for i := range at.ids {
		if r := &at.answers[i]; at.ids[i] == id && r.numbers == numbers && r.refused {
			may = may && now >= r.curious
			r.curious = max(r.curious, now+int64(doubt))
		}
	}
	return may
}

// companion answers an ask of a request that another ask has refused. It reports whether it
// knows the answer.
func (c *DenyCache) companion(now int64, a *limiter.Ask) (limiter.Result, bool) {
	known := !memorable(a)
	if !known {
		id, numbers := c.id(a.Limit, a.Key), numbersOf(a.Limit)
		s := c.shard(id)
		s.mu.Lock()
		defer s.mu.Unlock()
		if at := s.set(id); at != nil {
			for i := range at.ids {
				r := &at.answers[i]
				if at.ids[i] == id && r.numbers == numbers && r.cost == a.Cost && now < r.until && (r.refused || now < c.due(r)) {
					return r.tell(now, a), true
				}
			}
		}
	}
	return limiter.Result{Allowed: true, Origin: limiter.Cached, Max: a.Limit.Max(), Reset: a.Limit.Window}, known
}

// tell returns what the answer says by now.
func (r *answer) tell(now int64, a *limiter.Ask) limiter.Result {
	result := limiter.Result{
		Allowed:   !r.refused,
		Origin:    limiter.Cached,
		Max:       a.Limit.Max(),
		Remaining: r.left,
		Reset:     time.Duration(r.reset - now),
		Now:       r.at.Add(time.Duration(now - r.asked)),
	}
	switch {
	case r.refused && a.Cost > result.Max:
		result.Wait = limiter.Never
	case r.refused:
		result.Wait = time.Duration(r.until - now)
	}
	if result.Reset <= 0 {
		result.Remaining, result.Reset = result.Max, 0
	}
	return result
}

// learn remembers what the store itself answered to a request that it refused. asked is from before
// the call.
func (c *DenyCache) learn(asked int64, asks []limiter.Ask, results []limiter.Result) {
	for i := range asks {
		a, r := &asks[i], &results[i]
		if !memorable(a) || r.Origin != limiter.Exactly {
			continue
		}
		kept := answer{
			numbers: numbersOf(a.Limit), cost: a.Cost, refused: !r.Allowed, firm: c.firm(a.Limit, len(asks)),
			asked: asked, reset: asked + int64(r.Reset), left: r.Remaining, at: r.Now,
		}
		kept.until = asked + int64(c.o.HeardCap)
		if kept.refused && r.Wait != limiter.Never {
			kept.until = asked + int64(r.Wait)
		}
		var name uint64
		if c.o.Name != nil {
			name = c.tag(c.o.Name(a.Limit, a.Key))
		}
		c.put(c.id(a.Limit, a.Key), name, &kept)
	}
}

// firm reports whether nothing but what operators do can shorten a wait that the store told of one of so many
// asks.
func (c *DenyCache) firm(l *limiter.Limit, asks int) bool {
	return !l.Settled && l.Reserve <= 1 && l.Deferred == 0 && (asks == 1 || !c.o.Apart)
}

// id returns the hash of the state that a limit keeps for a key. It is never 0.
func (c *DenyCache) id(l *limiter.Limit, key string) uint64 {
	limit := maphash.String(c.seed, l.Zone) ^ bits.RotateLeft64(maphash.String(c.seed, l.Algorithm)+uint64(l.Index), 31)
	return max(mix(maphash.String(c.seed, key), limit), 1)
}

// tag returns the hash of a name.
func (c *DenyCache) tag(name string) uint64 { return maphash.String(c.seed, name) }

// numbersOf returns a hash of the numbers that decide what a state means.
func numbersOf(l *limiter.Limit) uint64 {
	return mix(mix(uint64(l.Events), uint64(l.Window)), uint64(l.Burst))
}

// mix makes one hash of two.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return hi ^ lo
}
