package algorithm

import "github.com/weirhq/caddy-weir/limiter"

// slidingWindow is the marked log: it never lets more than Events pass in any Window,
// wherever the window begins, and needs no more than 72 marks for it. A mark stands for k
// events, a 72nd of the limit rounded up, and bears the time of the newest of them; all of
// them leave the window together. Up to a limit of 72 a mark is an event, and the
// log is exact; above, at most k-1 events too few pass in a Window, which is less than 1.4 %
// of the limit.
//
// Times are rounded up to 8 µs. Whatever is rounded makes an event count longer, never shorter.
type slidingWindow struct{}

const (
	// marksMost marks are what Redis keeps in the same room as 64 of them.
	marksMost  = 72
	markLen    = 6
	logHead    = 8
	markedMost = logHead + marksMost*markLen

	// markEpoch is 2025-01-01T00:00:00Z; 48 bits of 8 µs from there reach to 2096.
	markEpoch limiter.Instant = 1_735_689_600_000_000
	markMax                   = 1<<48 - 1
)

func (slidingWindow) Name() string { return limiter.SlidingWindow }

func (slidingWindow) Check(*limiter.Limit) error { return nil }

func (slidingWindow) Peek(now limiter.Instant, state []byte, a *limiter.Ask) (r limiter.Result) {
	var m marked
	m.read(now, state, a.Limit)
	m.peek(&r, now, a)
	return r
}

func (slidingWindow) Spend(now limiter.Instant, state []byte, a *limiter.Ask) (_ []byte, r limiter.Result) {
	var m marked
	m.read(now, state, a.Limit)
	fits := m.spend(claim(a))
	if !fits {
		m.peek(&r, now, a)
		return m.state, r
	}
	return m.state, answer(now, m.events, m.live, m.reset(now))
}

func (slidingWindow) take(r *limiter.Result, now limiter.Instant, state []byte, a *limiter.Ask) []byte {
	if kept := appendEvents(r, now, state, a); kept != nil {
		return kept
	}
	var m marked
	m.read(now, state, a.Limit)
	if a.Cost <= 0 || m.live+a.Cost > m.events {
		m.peek(r, now, a)
		return state
	}
	m.spend(a.Cost)
	pass(r, now, m.events, m.live, m.reset(now))
	return m.state
}

func (slidingWindow) Adjust(now limiter.Instant, state []byte, c *limiter.Change) ([]byte, limiter.Result) {
	var m marked
	m.read(now, state, c.Limit)
	if c.Delta > 0 {
		m.spend(min(c.Delta, m.events))
	} else {
		// Of what is given back, as much as was above the limit frees nothing.
		back := max(-c.Delta-m.skip, 0)
		m.settle()
		if c.Spent == 0 {
			m.dropOldest(back)
		} else {
			m.dropAt(mark(c.Spent), back)
		}
		m.seal()
	}
	return m.state, answer(now, m.events, m.live, m.reset(now))
}

func (slidingWindow) rebase(now limiter.Instant, state []byte, l *limiter.Limit) ([]byte, bool) {
	if len(state) < logHead+markLen || get6(state[len(state)-markLen:]) <= mark(now) {
		return state, false
	}
	var m marked
	m.read(now, state, l)
	m.settle()
	m.seal()
	return m.state, true
}

// MarkEvents returns k, how many events a mark of a sliding_window's state stands for.
func MarkEvents(events int64) int64 { return ceilDiv(events, marksMost) }

// mark returns an instant as a mark's time, rounded up.
func mark(at limiter.Instant) int64 {
	return min(int64(max(at-markEpoch, 0)+7)/8, markMax)
}

// lastDead returns the time of the newest mark that has left a window, in microseconds, by now.
func lastDead(now limiter.Instant, window int64) int64 {
	return (int64(now-markEpoch) - window) >> 3
}

// marked is a state as it is at some instant, under the numbers of a limit.
type marked struct {
	state  []byte
	events int64
	window int64
	top    int64 // now, as a mark
	dead   int64 // see lastDead
	n      int   // live marks, of k events each but the newest, which has fill
	k      int64
	fill   int64
	live   int64 // live events

	// How the marks lie in the state, until settle has laid them down anew: expired
	// ones come first, and each stands for was events, of which the skip oldest are
	// above the limit.
	expired int
	was     int64
	skip    int64
}

// read makes m, which is zero, a state as it is at now, under the numbers of a limit.
func (m *marked) read(now limiter.Instant, state []byte, l *limiter.Limit) {
	m.state = state
	m.events = l.Events
	m.window = window(l)
	m.top = mark(now)
	m.dead = lastDead(now, m.window)
	m.k = MarkEvents(l.Events)
	m.was = m.k
	n := (len(state) - logHead) / markLen
	if n < 1 || n > marksMost || len(state) != logHead+n*markLen || state[0] != version {
		return
	}
	was, fill := get3(state[1:]), get4(state[4:])
	if fill < 1 || fill > was || get6(state[len(state)-markLen:]) <= m.dead {
		return
	}
	for get6(state[logHead+m.expired*markLen:]) <= m.dead {
		m.expired++
	}
	m.n = n - m.expired
	m.was, m.fill = was, fill
	m.live = int64(m.n-1)*was + fill
	if was != m.k {
		m.regroup()
	}
}

// regroup thinks of the live marks, made under other numbers, as their single events and
// groups the newest of them, as many as the limit allows, into marks of k.
func (m *marked) regroup() {
	m.skip = max(m.live-m.events, 0)
	m.live -= m.skip
	m.n = int(ceilDiv(m.live, m.k))
	m.fill = m.live - int64(m.n-1)*m.k
}

// at returns the time of a live mark, counted from the oldest. One ahead of now counts
// as now.
func (m *marked) at(i int) int64 {
	if m.was != m.k {
		newest := m.skip + min(int64(i+1)*m.k, m.live)
		i = int((newest - 1) / m.was)
	}
	return min(get6(m.state[logHead+(m.expired+i)*markLen:]), m.top)
}

// settle lays the live marks down at the front of the state, as at tells them.
func (m *marked) settle() {
	if m.was != m.k {
		m.lay()
	} else if m.n > 0 {
		if m.expired > 0 {
			copy(m.state[logHead:], m.state[logHead+m.expired*markLen:])
		}
		m.state = m.state[:logHead+m.n*markLen]
		for i := m.n - 1; i >= 0 && get6(m.state[logHead+i*markLen:]) > m.top; i-- {
			put6(m.state[logHead+i*markLen:], m.top)
		}
	}
	m.expired, m.was, m.skip = 0, m.k, 0
}

// lay lays marks down that were made under other numbers.
func (m *marked) lay() {
	var times [marksMost]int64
	for i := range m.n {
		times[i] = m.at(i)
	}
	m.state = resize(m.state, logHead+m.n*markLen, markedMost)
	for i := range m.n {
		put6(m.state[logHead+i*markLen:], times[i])
	}
}

// spend records cost events as of now and reports whether they fit. If not, the log is
// full afterwards: of the older events only those stay for which there is room.
func (m *marked) spend(cost int64) bool {
	m.settle()
	over := m.live + cost - m.events
	if over > 0 {
		m.dropFront(min(int(ceilDiv(over, m.k)), m.n))
		cost = m.events - m.live
	}
	m.push(cost)
	m.seal()
	return over <= 0
}

// push adds events at now behind all others.
func (m *marked) push(cost int64) {
	if m.n > 0 && m.fill < m.k && cost > 0 {
		some := min(m.k-m.fill, cost)
		put6(m.state[logHead+(m.n-1)*markLen:], m.top)
		m.fill += some
		m.live += some
		cost -= some
	}
	for cost > 0 {
		some := min(m.k, cost)
		m.state = resize(m.state, logHead+(m.n+1)*markLen, markedMost)
		put6(m.state[logHead+m.n*markLen:], m.top)
		m.n++
		m.fill = some
		m.live += some
		cost -= some
	}
}

// seal writes the head and cuts the state behind the newest mark. A log without marks
// leaves no state.
func (m *marked) seal() {
	if m.n == 0 {
		m.state = m.state[:0]
		return
	}
	m.state = m.state[:logHead+m.n*markLen]
	m.state[0] = version
	put3(m.state[1:], m.k)
	put4(m.state[4:], m.fill)
}

func (m *marked) peek(r *limiter.Result, now limiter.Instant, a *limiter.Ask) {
	pass(r, now, m.events, m.live, m.reset(now))
	cost := claim(a)
	switch {
	case cost > m.events:
		refuse(r, a, limiter.Never)
	case m.live+cost > m.events:
		// As many marks as hold what is too much have to expire.
		first := min(int(ceilDiv(m.live+cost-m.events, m.k)), m.n)
		refuse(r, a, micros(m.left(now, first-1)))
	}
}

// left returns how many microseconds a mark still counts.
func (m *marked) left(now limiter.Instant, i int) int64 {
	return int64(markEpoch-now) + 8*m.at(i) + m.window
}

func (m *marked) reset(now limiter.Instant) int64 {
	if m.n == 0 {
		return 0
	}
	return m.left(now, m.n-1)
}
