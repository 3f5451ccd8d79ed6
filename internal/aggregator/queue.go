package aggregator

import (
	"context"
	"net/netip"
)

const (
	// mostWaiting is how many look-ups wait for their turn, of strangers and of others each.
	mostWaiting = 256
	// mostNeighbours is how many of them are of strangers from one neighbourhood, in networks of their
	// own: who has a whole range of networks is not to have the whole queue.
	mostNeighbours = 8
	// strangersTurn is which turn strangers have first: who has many addresses in a network where a service is
	// confirmed, as others do at a hoster, is not to have all of them.
	strangersTurn = 4
)

// A queue is what waits to be looked up. There is a line for strangers and one for those of whom something is known: a
// confirmed address, and any in a network where one was. They go first, but in one turn of four. Of each network (IPv4 /24,
// IPv6 /48) one waits, of strangers in a neighbourhood (IPv4 /16, IPv6 /32) eight. It is not safe for concurrent
// use, but that one goroutine may take at any time.
type queue struct {
	waiting       map[netip.Prefix]bool // networks
	neighbours    map[netip.Prefix]int  // strangers that wait, by neighbourhood
	strangers     chan inquiry
	acquaintances chan inquiry
	turns         uint // that were taken
}

// An inquiry is a subject that waits to be looked up, or is.
type inquiry struct {
	subject

	stranger bool
}

func newQueue() queue {
	return queue{
		waiting:    make(map[netip.Prefix]bool),
		neighbours: make(map[netip.Prefix]int),
		strangers:  make(chan inquiry, mostWaiting), acquaintances: make(chan inquiry, mostWaiting),
	}
}

// enter has a subject wait, unless others that are near do already or too many.
func (q *queue) enter(i inquiry) {
	near, around := network(i.client), neighbourhood(i.client)
	if q.waiting[near] {
		return
	}
	line := q.acquaintances
	if i.stranger {
		if q.neighbours[around] >= mostNeighbours {
			return
		}
		line = q.strangers
	}
	select {
	case line <- i:
		q.waiting[near] = true
		if i.stranger {
			q.neighbours[around]++
		}
	default:
	}
}

// take waits for the next one.
func (q *queue) take(ctx context.Context) (i inquiry, ok bool) {
	q.turns++
	first := q.acquaintances
	if q.turns%strangersTurn == 0 {
		first = q.strangers
	}
	select {
	case i = <-first:
		return i, true
	default:
	}
	select {
	case i = <-q.acquaintances:
	case i = <-q.strangers:
	case <-ctx.Done():
		return i, false
	}
	return i, true
}

// leave lets others that are near wait.
func (q *queue) leave(i inquiry) {
	delete(q.waiting, network(i.client))
	if !i.stranger {
		return
	}
	around := neighbourhood(i.client)
	if q.neighbours[around]--; q.neighbours[around] <= 0 {
		delete(q.neighbours, around)
	}
}

// network is the one around an address, which mostly has one owner.
func network(a netip.Addr) netip.Prefix { return around(a, 24, 48) }

// neighbourhood is what a large owner has of networks, or a hoster.
func neighbourhood(a netip.Addr) netip.Prefix { return around(a, 16, 32) }

func around(a netip.Addr, bits4, bits6 int) netip.Prefix {
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	p, _ := a.Prefix(bits)
	return p
}
