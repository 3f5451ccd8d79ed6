package algorithm

// How a marked log gives events back. It keeps whole marks, so that a give-back may have
// to be rounded down; it must never be rounded so that an event counts for less time than
// it should.

// dropFront removes the oldest marks.
func (m *marked) dropFront(count int) {
	m.cut(0, count)
	m.n -= count
	m.live -= int64(count) * m.k
	if m.n == 0 {
		m.fill, m.live = 0, 0
	}
}

// cut removes marks from the state.
func (m *marked) cut(from, count int) {
	if count > 0 {
		copy(m.state[logHead+from*markLen:], m.state[logHead+(from+count)*markLen:])
	}
}

// dropOldest gives the oldest events back: whole marks, and single events once all are in
// the newest mark.
func (m *marked) dropOldest(back int64) {
	if m.n == 0 {
		return
	}
	whole := min(back/m.k, int64(m.n-1))
	m.dropFront(int(whole))
	if m.n == 1 {
		m.shrink(back - whole*m.k)
	}
}

// dropAt gives events back that were spent at the time of a mark. They stand in the first
// mark that is not older, and if there are many in those of the same time that follow.
func (m *marked) dropAt(spent, back int64) {
	if spent <= m.dead {
		return
	}
	first := 0
	for first < m.n && m.at(first) < spent {
		first++
	}
	last := first
	for last < m.n && m.at(last) == spent {
		last++
	}
	switch {
	case first == m.n:
		return
	case last == m.n:
		// All up to the newest event are of that time.
		same := int64(last-first-1)*m.k + m.fill
		m.shrink(min(back, same))
	case last > first:
		// Later events follow, in marks that have to stay full.
		whole := min(int(min(back/m.k, marksMost)), last-first)
		m.cut(first, whole)
		m.n -= whole
		m.live -= int64(whole) * m.k
	case first == m.n-1 && m.k > 1:
		// Others came into the same mark later.
		m.shrink(min(back, m.fill))
	}
}

// shrink takes events off the newest end of the log, at most all.
func (m *marked) shrink(back int64) {
	m.live = max(m.live-back, 0)
	m.n = int(ceilDiv(m.live, m.k))
	m.fill = m.live - int64(max(m.n-1, 0))*m.k
}
