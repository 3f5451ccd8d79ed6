package memstore

// A list is a sequence that grows without ever copying much: it lies in chunks, and only the
// first of them grows. So no step that needs one place more takes long, however many there
// are. The zero value is empty.
type list[T any] struct {
	first []T // the first chunk, which is all that most shards need, is reached without looking elsewhere
	size  uint32
	rest  [][]T // the other chunks: all but the last are full
}

// The elements of a chunk, and of the first one at first.
const (
	chunkBits  = 9
	chunkSize  = 1 << chunkBits
	firstChunk = 8
)

// at returns the place of an element. It is good until the next push.
func (l *list[T]) at(n uint32) *T {
	if n < chunkSize {
		return &l.first[n]
	}
	return &l.rest[n>>chunkBits-1][n%chunkSize]
}

// push appends an element and returns its number.
func (l *list[T]) push(element T) uint32 {
	n := l.size
	l.size++
	switch {
	case n == 0:
		l.first = make([]T, 0, firstChunk)
	case n%chunkSize == 0:
		l.rest = append(l.rest, make([]T, 0, chunkSize))
	}
	last := &l.first
	if n >= chunkSize {
		last = &l.rest[len(l.rest)-1]
	}
	*last = append(*last, element)
	return n
}
