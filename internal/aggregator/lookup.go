package aggregator

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Resolver asks the DNS. [net.Resolver] is one.
type Resolver interface {
	// LookupAddr returns the names of an address.
	LookupAddr(ctx context.Context, address string) ([]string, error)
	// LookupNetIP returns the addresses of a name; network is ip4 or ip6.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options of a Verifier.
type Options struct {
	// Resolver to ask. Default: the system's.
	Resolver Resolver
	// Timeout of a look-up as a whole. Default: 5s.
	Timeout time.Duration
	// PerMinute is how many look-ups are made in a minute at most, evenly. Default: 60.
	PerMinute int
	// AtOnce is how many are under way at the same time at most. Default: 4.
	AtOnce int
	// Told, if not nil, hears when look-ups begin to fail, and with nil when they are
	// answered again.
	Told func(err error)
	// Now is the clock by which answers age. Default: time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.PerMinute == 0 {
		o.PerMinute = 60
	}
	if o.AtOnce == 0 {
		o.AtOnce = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Run makes look-ups until ctx is done. Of several that run only one works, and the next one
// takes over.
func (v *Verifier) Run(ctx context.Context) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-v.turn }()
	pace := time.NewTicker(time.Minute / time.Duration(v.o.PerMinute))
	defer pace.Stop()
	room := make(chan struct{}, v.o.AtOnce)
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		next, ok := v.queue.take(ctx)
		if !ok {
			return
		}
		work.Go(func() {
			v.lookUp(ctx, next)
			<-room
		})
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

func (v *Verifier) lookUp(ctx context.Context, i inquiry) {
	defer v.done(i)
	who := i.subject
	bounded, cancel := context.WithTimeout(ctx, v.o.Timeout)
	defer cancel()
	confirmed, err := confirm(bounded, v.o.Resolver, who)
	if ctx.Err() != nil && !confirmed {
		return // it was we who ended it
	}
	v.learn(who, confirmed, err)
	v.tell(err)
}

// tell tells whoever wants to know when look-ups begin to fail, and when that is over.
func (v *Verifier) tell(err error) {
	v.mu.Lock()
	changed := v.failing != (err != nil)
	v.failing = err != nil
	v.mu.Unlock()
	if changed && v.o.Told != nil {
		v.o.Told(err)
	}
}

// mostNames is how many names of one address are tried: its owner may give it any number.
const mostNames = 8

// confirm reports whether an address has a name in the domains that leads back to it. An
// error says that the DNS left that open.
func confirm(ctx context.Context, r Resolver, who subject) (bool, error) {
	names, err := r.LookupAddr(ctx, who.client.String())
	if len(names) == 0 {
		return false, open(err)
	}
	kind, tried := "ip6", 0
	if who.client.Is4() {
		kind = "ip4"
	}
	var left error
	for _, name := range names {
		if !who.domains.holds(name) {
			continue
		}
		if tried++; tried > mostNames {
			break
		}
		addresses, err := r.LookupNetIP(ctx, kind, name)
		for _, a := range addresses {
			if a.Unmap().WithZone("") == who.client {
				return true, nil
			}
		}
		if left == nil {
			left = open(err)
		}
	}
	return false, left
}

// open returns the error of a look-up unless it is an answer: that there is no such name.
func open(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return nil
	}
	return err
}
