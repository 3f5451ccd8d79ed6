package algorithm

import "encoding/binary"

// States hold unsigned big-endian numbers of three to seven bytes, no wider than what
// they count, since a store may hold millions of them.

func get3(b []byte) int64 {
	return int64(binary.BigEndian.Uint16(b))<<8 | int64(b[2])
}

func put3(b []byte, v int64) {
	binary.BigEndian.PutUint16(b, uint16(v>>8))
	b[2] = byte(v)
}

func get4(b []byte) int64 { return int64(binary.BigEndian.Uint32(b)) }

func put4(b []byte, v int64) { binary.BigEndian.PutUint32(b, uint32(v)) }

func get5(b []byte) int64 {
	return int64(binary.BigEndian.Uint32(b))<<8 | int64(b[4])
}

func put5(b []byte, v int64) {
	binary.BigEndian.PutUint32(b, uint32(v>>8))
	b[4] = byte(v)
}

func get6(b []byte) int64 {
	return int64(binary.BigEndian.Uint32(b))<<16 | int64(binary.BigEndian.Uint16(b[4:]))
}

func put6(b []byte, v int64) {
	binary.BigEndian.PutUint32(b, uint32(v>>16))
	binary.BigEndian.PutUint16(b[4:], uint16(v))
}

func get7(b []byte) int64 {
	return int64(binary.BigEndian.Uint32(b))<<24 | int64(binary.BigEndian.Uint16(b[4:]))<<8 | int64(b[6])
}

func put7(b []byte, v int64) {
	binary.BigEndian.PutUint32(b, uint32(v>>24))
	binary.BigEndian.PutUint16(b[4:], uint16(v>>8))
	b[6] = byte(v)
}

// resize returns state with the length n, what it held kept as far as it fits. Room
// that has to be made anew is twice the old, but never more than most, so that a full
// state wastes nothing.
func resize(state []byte, n, most int) []byte {
	if n <= cap(state) {
		return state[:n]
	}
	grown := make([]byte, n, max(n, min(2*cap(state), most)))
	copy(grown, state)
	return grown
}

// ceilDiv divides a non-negative number by a positive one, rounding up.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
