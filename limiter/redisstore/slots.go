package redisstore

import "strings"

// slots is how many slots the keys of a cluster are spread over.
const slots = 16384

// slotOf returns the slot of a key: the CRC16 of what stands between its first braces, or
// of all of it if nothing does, as the Redis Cluster specification has it.
func slotOf(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return slotOfTag(tag)
		}
	}
	return slotOfTag(key)
}

// slotOfTag returns the slot of all keys with that tag.
func slotOfTag[T string | []byte](tag T) int {
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return int(crc) % slots
}

// crcTable is that of the CRC16 with polynomial 0x1021, highest bit first, which begins
// with 0 (XMODEM).
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
