package redisstore

import "testing"

func TestSlotOf(t *testing.T) {
	for key, want := range map[string]int{
		// As the servers' own CLUSTER KEYSLOT has them.
		"123456789":     12739,
		"foo":           12182,
		"":              0,
		"{user1000}.a":  3443,
		"b.{user1000}":  3443,
		"foo{}{bar}":    8363,
		"foo{{bar}}zap": 4015,
		"foo{bar}{zap}": 5061,
		"foo{bar":       15278,
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}
