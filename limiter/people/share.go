package people

import (
	"context"
	"time"
)

// Run shares what is seen until ctx is done. Without a sharer it has nothing to do.
func (e *Estimator) Run(ctx context.Context) {
	if e.o.Sharer == nil {
		return
	}
	tick := time.NewTicker(ShareInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			e.share(ctx)
		}
	}
}

// A crowd is the people of one kind that were seen from one address.
type crowd struct {
	address string
	kind    Kind
}

// share tells the sharer of all news, address by address, and keeps what it answers. At the
// first failure it stops, and the news wait for the next time.
func (e *Estimator) share(ctx context.Context) {
	e.mu.Lock()
	news := e.news
	e.news = make(map[sighting]struct{})
	e.mu.Unlock()

	crowds := make(map[crowd][]string)
	for s := range news {
		c := crowd{s.address, s.kind}
		crowds[c] = append(crowds[c], s.person)
	}
	newest := e.generation(e.o.Now())
	window := make([]int64, generations)
	for i := range window {
		window[i] = newest - generations + 1 + int64(i)
	}
	for c, people := range crowds {
		n, err := e.o.Sharer.CountPeople(ctx, c.address, c.kind, window, people, e.o.Window)
		if err != nil {
			e.fail(err, crowds)
			return
		}
		e.learn(c, newest, n)
		delete(crowds, c)
	}
	e.fail(nil, nil)
}

// learn keeps what the sharer said of a crowd.
func (e *Estimator) learn(c crowd, generation, n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.addresses[c.address]
	if a == nil {
		return // it had to make room meanwhile
	}
	counted := &a.kinds[c.kind]
	counted.turn(generation)
	if counted.newest == generation {
		counted.shared, counted.asked = n, e.o.Now()
	}
}

// fail puts back what could not be shared, and tells of a change.
func (e *Estimator) fail(err error, crowds map[crowd][]string) {
	e.mu.Lock()
	for c, people := range crowds {
		for _, person := range people {
			if len(e.news) < maxNews {
				e.news[sighting{c.address, c.kind, person}] = struct{}{}
			}
		}
	}
	changed := e.failing != (err != nil)
	e.failing = err != nil
	e.mu.Unlock()
	if changed && e.o.Told != nil {
		e.o.Told(err)
	}
}
