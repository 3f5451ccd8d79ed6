package blocklist

import "strings"

// A scratch is the room in which one request is matched. Sets keep theirs in a pool, so
// that matching allocates nothing.
type scratch struct {
	// slots holds the request's values, copied once for all rules.
	slots []values
	// groups of rules that the index found, and candidates, the rules in them.
	groups, candidates bag
	// hits are the dry-run rules that matched.
	hits []int32
}

// values of one slot: several for a header that came several times, none if the
// request has no such value.
type values struct {
	loaded bool
	texts  [][]byte
}

// roomy is the most bytes of one value that a pooled scratch keeps room for.
const roomy = 8 << 10

// values returns the request's values for a slot, in lower case if the slot folds.
func (sc *scratch) values(r *Request, s *slots, slot int) [][]byte {
	v := &sc.slots[slot]
	if v.loaded {
		return v.texts
	}
	v.loaded = true
	l := &(*s)[slot]
	v.texts = v.texts[:0]
	switch l.kind {
	case header:
		for _, value := range r.Header[l.header] {
			v.add(value, l.fold)
		}
	case args:
		for _, value := range r.Args {
			v.add(value, l.fold)
		}
	default:
		value, ok := r.valueOf(l.name)
		if !ok {
			break
		}
		v.add(value, l.fold)
		if file := strings.TrimSuffix(value, "/"); l.slash && file != value && file != "" {
			v.add(file, l.fold)
		}
	}
	return v.texts
}

// add appends a copy of a value, reusing the room of values before.
func (v *values) add(value string, fold bool) {
	n := len(v.texts)
	if n < cap(v.texts) {
		v.texts = v.texts[:n+1]
	} else {
		v.texts = append(v.texts, nil)
	}
	text := append(v.texts[n][:0], value...)
	if fold {
		lower(text)
	}
	v.texts[n] = text
}

// A bag holds small numbers, each once however often it is added.
type bag struct {
	numbers []int32
	seen    []uint64 // a bit for each
}

// newBag returns a bag for numbers below most.
func newBag(most int) bag { return bag{seen: make([]uint64, (most+63)/64)} }

// add reports whether the number was not in the bag before.
func (b *bag) add(n int32) bool {
	word, bit := n/64, uint64(1)<<(n%64)
	if b.seen[word]&bit != 0 {
		return false
	}
	b.seen[word] |= bit
	b.numbers = append(b.numbers, n)
	return true
}

func (b *bag) clear() {
	for _, n := range b.numbers {
		b.seen[n/64] = 0
	}
	b.numbers = b.numbers[:0]
}

// reset readies the scratch for the next request. It returns false if a large request
// has bloated it beyond what is worth keeping.
func (sc *scratch) reset() bool {
	sc.hits = sc.hits[:0]
	for i := range sc.slots {
		v := &sc.slots[i]
		v.loaded = false
		if cap(v.texts) > 64 {
			return false
		}
		for _, text := range v.texts {
			if cap(text) > roomy {
				return false
			}
		}
	}
	return true
}
