package aggregator

import "maps"

// makeRoom keeps a map below a number of entries: when it is reached those that are over go and,
// if that is not enough, any tenth of the others.
func makeRoom[K comparable, V any](m map[K]V, most int, over func(V) bool) {
	if len(m) < most {
		return
	}
	maps.DeleteFunc(m, func(_ K, v V) bool { return over(v) })
	for k := range m {
		if len(m) <= most*9/10 {
			return
		}
		delete(m, k)
	}
}
