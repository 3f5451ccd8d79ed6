package blocklist

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Bans is an immutable set of bans, found by key. Its zero value is empty, and is safe for
// concurrent use like any other. A changed set shares with the one before what did not change.
type Bans struct {
	byKey, byParent shards
	*tally
}

// A tally counts what a set has, so that a request need not look for what is not there.
type tally struct {
	all int
	// zones counts the bans for a zone, by its name.
	zones map[string]int
	// lengths counts the bans of addresses, for sites and for all, by their bits.
	lengths [129]int
	// others counts those of sites and for all.
	others int
}

// BansOf makes a set. Of several bans of one ID the last counts.
func BansOf(bans ...*Ban) Bans {
	e := Bans{}.edit()
	for _, b := range bans {
		e.put(b)
	}
	return e.next
}

// Len returns how many bans there are, those that are over included.
func (s Bans) Len() int {
	if s.tally == nil {
		return 0
	}
	return s.all
}

// Zone returns how many bans there are for a zone, those that are over included.
func (s Bans) Zone(name string) int {
	if s.tally == nil {
		return 0
	}
	return s.zones[name]
}

// All walks over the bans, in no order.
func (s Bans) All() iter.Seq[*Ban] { return s.byKey.all }

// Get returns the ban with an ID; nil if there is none.
func (s Bans) Get(id BanID) *Ban {
	for _, b := range s.byKey.of(id.Key) {
		if b.ID() == id {
			return b
		}
	}
	return nil
}

// Find returns the ban of a key that ends last among those of this scope which are not over;
// nil if there is none. It allocates nothing.
func (s Bans) Find(scope Scope, key string, now time.Time) *Ban {
	return last(s.byKey.of(key), scope, now)
}

// FindByOthers returns the ban of a key for a zone that ends last among those that somebody else made
// than the zone itself by its counting: operators, above all. It allocates nothing.
func (s Bans) FindByOthers(zone, key string, now time.Time) (found *Ban) {
	scope := Scope{Kind: ScopeZone, Name: zone}
	for _, b := range s.byKey.of(key) {
		if b.Scope == scope && b.Zone != zone && !b.Over(now) && (found == nil || b.Until.After(found.Until)) {
			found = b
		}
	}
	return found
}

// last returns the ban of a scope that ends last and is not over.
func last(bans []*Ban, scope Scope, now time.Time) *Ban {
	var last *Ban
	for _, b := range bans {
		if b.Scope == scope && !b.Over(now) && (last == nil || b.Until.After(last.Until)) {
			last = b
		}
	}
	return last
}

// Children returns how many bans of a scope that are not over have this parent.
func (s Bans) Children(scope Scope, parent string, now time.Time) int {
	n := 0
	for _, b := range s.byParent.of(parent) {
		if b.Scope == scope && !b.Over(now) {
			n++
		}
	}
	return n
}

// Sweep returns the set without the bans that are forgotten.
func (s Bans) Sweep(now time.Time) Bans {
	e := s.edit()
	for b := range s.All() {
		if b.Forgotten(now) {
			e.lift(b.ID())
		}
	}
	return e.next
}

// bound returns the set with at most so many bans: those that are forgotten first go first.
func (s Bans) bound(most int) Bans {
	excess := s.Len() - most
	if excess <= 0 {
		return s
	}
	all := slices.SortedFunc(s.All(), func(a, b *Ban) int { return a.forget().Compare(b.forget()) })
	e := s.edit()
	for _, b := range all[:excess] {
		e.lift(b.ID())
	}
	return e.next
}

// A bansEdit makes the next set of one, in next. What it changes it copies first, once.
type bansEdit struct {
	next          Bans
	keys, parents map[int]bool // the shards that are copied; nil until anything is
}

func (s Bans) edit() *bansEdit { return &bansEdit{next: s} }

func (e *bansEdit) begin() {
	if e.keys != nil {
		return
	}
	e.keys, e.parents = make(map[int]bool), make(map[int]bool)
	e.next.byKey, e.next.byParent = e.next.byKey.copied(), e.next.byParent.copied()
	t := new(tally)
	if e.next.tally != nil {
		*t = *e.next.tally
	}
	if t.zones = maps.Clone(t.zones); t.zones == nil {
		t.zones = make(map[string]int)
	}
	e.next.tally = t
}

func (e *bansEdit) put(b *Ban) {
	e.lift(b.ID())
	e.begin()
	e.next.byKey.change(e.keys, b.Key, func(bans []*Ban) []*Ban { return append(bans, b) })
	if b.Parent != "" {
		e.next.byParent.change(e.parents, b.Parent, func(bans []*Ban) []*Ban { return append(bans, b) })
	}
	e.next.count(b, 1)
}

func (e *bansEdit) lift(id BanID) {
	old := e.next.Get(id)
	if old == nil {
		return
	}
	e.begin()
	without := func(bans []*Ban) []*Ban {
		return slices.DeleteFunc(bans, func(b *Ban) bool { return b == old })
	}
	e.next.byKey.change(e.keys, id.Key, without)
	if old.Parent != "" {
		e.next.byParent.change(e.parents, old.Parent, without)
	}
	e.next.count(old, -1)
}

func (t *tally) count(b *Ban, by int) {
	t.all += by
	if b.Scope.Kind == ScopeZone {
		if t.zones[b.Scope.Name] += by; t.zones[b.Scope.Name] == 0 {
			delete(t.zones, b.Scope.Name)
		}
		return
	}
	t.others += by
	if b.Bits > 0 {
		t.lengths[b.Bits] += by
	}
}
