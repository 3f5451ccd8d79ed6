package redisstore

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/weirhq/caddy-weir/limiter"
)

// Release implements [limiter.Store] in one round trip for each slot. Asks of one state cost the least
// side by side.
func (s *Store) Release(ctx context.Context, asks []limiter.Ask) error {
	return s.lease(ctx, asks, 0)
}

// Renew implements [limiter.Renewer] in one round trip for each slot. Asks of one state cost the least
// side by side.
func (s *Store) Renew(ctx context.Context, asks []limiter.Ask) error {
	return s.lease(ctx, asks, 1)
}

func (s *Store) lease(ctx context.Context, asks []limiter.Ask, renew byte) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h, err := s.meet(ctx)
	if err != nil {
		return err
	}
	var leases []limiter.Ask
	var keys []string
	for i := range asks {
		if a := &asks[i]; a.Limit.Algorithm == limiter.InFlight {
			leases = append(leases, *a)
			keys = append(keys, s.names.build(h, inFlight, a.Limit, a.Key))
		}
	}
	return s.bySlot(ctx, keys, func(ctx context.Context, group []int) error {
		return s.leaseTogether(ctx, pick(leases, group), pick(keys, group), renew)
	})
}

// leaseTogether gives leases back or renews them whose states lie together.
func (s *Store) leaseTogether(ctx context.Context, asks []limiter.Ask, names []string, renew byte) error {
	var keys []string
	var packed []byte
	count := 0 // names of the last key
	for i := range asks {
		a := &asks[i]
		if n := len(keys); n == 0 || keys[n-1] != names[i] || count == math.MaxUint16 {
			keys, count = append(keys, names[i]), 0
			packed = appendLeased(packed, a.Limit, renew)
		}
		packed = appendLease(packed, count, a.Lease)
		count++
	}
	return s.count(ctx, leaseScript, keys, packed)
}

// leaseName is the length of a lease's name in the state.
const leaseName = 8

// appendLeased packs a state for lease.lua, as yet without names.
func appendLeased(b []byte, l *limiter.Limit, renew byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, renew), uint32(l.Events))
	return append(append7(b, micros(l.Window)), 0, 0)
}

// appendLease packs one more name for the last state, which had count of them.
func appendLease(b []byte, count int, lease string) []byte {
	binary.BigEndian.PutUint16(b[len(b)-count*leaseName-2:], uint16(count+1))
	var name [leaseName]byte
	copy(name[:], lease)
	return append(b, name[:]...)
}

var _ limiter.Renewer = (*Store)(nil)
