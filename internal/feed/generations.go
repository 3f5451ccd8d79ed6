package feed

// generations is a bounded map that forgets what was not looked at for longest, roughly: when
// the younger half is full, the older one goes as a whole. What is held elsewhere stays valid.
type generations[V any] struct {
	half       int
	young, old map[uint64]*V
}

func newGenerations[V any](most int) generations[V] {
	return generations[V]{half: max(most/2, 1), young: make(map[uint64]*V)}
}

// get returns what is kept under a key, nil if nothing is.
func (g *generations[V]) get(key uint64) *V {
	if v := g.young[key]; v != nil {
		return v
	}
	v := g.old[key]
	if v != nil {
		delete(g.old, key)
		g.put(key, v)
	}
	return v
}

// put keeps a value under a key.
func (g *generations[V]) put(key uint64, v *V) {
	if len(g.young) >= g.half {
		g.young, g.old = make(map[uint64]*V), g.young
	}
	g.young[key] = v
}

// all yields what is kept, which counts as no look at it.
func (g *generations[V]) all(yield func(key uint64, v *V) bool) {
	for _, half := range [...]map[uint64]*V{g.young, g.old} {
		for key, v := range half {
			if !yield(key, v) {
				return
			}
		}
	}
}

// len is how many are kept.
func (g *generations[V]) len() int { return len(g.young) + len(g.old) }
