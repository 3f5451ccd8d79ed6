package blocklist

import (
	"hash/maphash"
	"maps"
	"slices"
)

// shards hold bans by a text, in many small maps. A map is never written once it is part of a
// set: whoever changes the set copies the few that it touches. There are as many as make the
// copy of one cheap, of a million bans, and the copy of the list of them hardly dearer.
type shards struct {
	maps *[4096]map[string][]*Ban // nil as long as there is nothing
}

var shardSeed = maphash.MakeSeed()

func (s shards) number(key string) int {
	return int(maphash.String(shardSeed, key) % uint64(len(s.maps)))
}

// of returns the bans of a key.
func (s shards) of(key string) []*Ban {
	if s.maps == nil {
		return nil
	}
	return s.maps[s.number(key)][key]
}

// ofBytes is of, for a key that is not worth a string.
func (s shards) ofBytes(key []byte) []*Ban {
	if s.maps == nil {
		return nil
	}
	return s.maps[maphash.Bytes(shardSeed, key)%uint64(len(s.maps))][string(key)]
}

// all is an iterator over all bans.
func (s shards) all(yield func(*Ban) bool) {
	if s.maps == nil {
		return
	}
	for _, m := range s.maps {
		for _, bans := range m {
			for _, b := range bans {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// copied returns shards whose list may be changed, and whose maps may not.
func (s shards) copied() shards {
	next := shards{new([4096]map[string][]*Ban)}
	if s.maps != nil {
		*next.maps = *s.maps
	}
	return next
}

// change replaces the bans of a key by what becomes of a copy of them. mine are the maps that were
// copied before.
func (s shards) change(mine map[int]bool, key string, to func([]*Ban) []*Ban) {
	n := s.number(key)
	m := &s.maps[n]
	if !mine[n] {
		mine[n] = true
		if *m = maps.Clone(*m); *m == nil {
			*m = make(map[string][]*Ban)
		}
	}
	if bans := to(slices.Clone((*m)[key])); len(bans) > 0 {
		(*m)[key] = bans
	} else {
		delete(*m, key)
	}
}
