package redisstore

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/caddy-weir/internal/redistest"
	"github.com/weirhq/caddy-weir/limiter"
)

func TestNode(t *testing.T) {
	// On a server of its own it is known at once, even if the server is not there.
	one := open(t, redistest.Reserve(t, redistest.Options{}), Options{Timeout: time.Second})
	ask := func(key string) limiter.Ask {
		return limiter.Ask{Limit: limitOf(limiter.FixedWindow, 5), Key: key, Cost: 1}
	}
	if n := one.Node([]limiter.Ask{ask("a"), ask("b")}); n != 0 {
		t.Errorf("a server of its own has number %d", n)
	}

	c := redistest.StartCluster(t, redistest.Options{})
	s := spread(t, c, Options{Secret: []byte("s")})
	if n := s.Node([]limiter.Ask{ask("a")}); n != -1 {
		t.Errorf("number %d before anything is known", n)
	}
	take(t, s, limitOf(limiter.FixedWindow, 5), "a", 1)
	numbers := map[int]string{}
	for i := range 100 {
		key := strconv.Itoa(i)
		n := s.Node([]limiter.Ask{ask(key), ask(key)})
		home, err := s.link.home(background, s.link.slot("{"+s.hasher.Load().String(key)+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if n < 0 || numbers[n] != "" && numbers[n] != home.addr {
			t.Errorf("%s: number %d is %q and %s", key, n, numbers[n], home.addr)
		}
		numbers[n] = home.addr
	}
	if len(numbers) != 3 {
		t.Errorf("numbers %v", numbers)
	}
	// Keys on one server, keys on several.
	first := lostSubject(s)
	for i := range 100 {
		want := -1
		if onFirst(s, i) {
			want = s.Node([]limiter.Ask{ask(first)})
		}
		if n := s.Node([]limiter.Ask{ask(first), ask(strconv.Itoa(i))}); n != want {
			t.Errorf("%s and %d: number %d, want %d", first, i, n, want)
		}
	}
}

// A node of a cluster decides a trip slot by slot, in one go, and again what its script was
// missing for.
func TestTripInCluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	s := spread(t, c, Options{Secret: []byte("s")})
	l, second := limitOf(limiter.FixedWindow, 100), limitOf(limiter.SlidingWindow, 100)
	take(t, s, l, "a", 1)
	var subjects []string
	for i := 0; len(subjects) < 30; i++ {
		if onFirst(s, i) {
			subjects = append(subjects, strconv.Itoa(i))
		}
	}
	for round := range int64(3) {
		var requests [][]limiter.Ask
		for range 3 {
			for _, key := range subjects {
				requests = append(requests, []limiter.Ask{{Limit: l, Key: key, Cost: 1}, {Limit: second, Key: key, Cost: 1}})
			}
		}
		if round == 1 {
			c.Masters[0].Do("SCRIPT FLUSH")
		}
		results, errs := together(t, s, requests)
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for i := range results {
			want := 100 - 3*round - int64(i/len(subjects)) - 1
			if r := results[i]; r[0].Remaining != want || r[1].Remaining != want {
				t.Errorf("round %d, request %d: %+v, want %d left", round, i, r, want)
			}
		}
	}
}

// A trip to a node that has only some of the slots: the others' calls find where they are, and
// each is charged once.
func TestTripToWrongNode(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	s := spread(t, c, Options{Secret: []byte("s")})
	l := limitOf(limiter.FixedWindow, 100)
	take(t, s, l, "a", 0)
	link := s.link.(*cluster)
	wrong := link.owners[0].Load()
	for slot := range link.owners {
		link.owners[slot].Store(wrong)
	}
	link.scout.close() // only what nodes say of single slots is heeded
	d := stop(t, wrong)
	var asks []limiter.Ask
	for i := range 100 {
		asks = append(asks, limiter.Ask{Limit: l, Key: strconv.Itoa(i), Cost: 1})
	}
	results, errs, wg := alongside(s, asks)
	d.let(99)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]bool{}
	for i, r := range results {
		if r.Remaining != 99 {
			t.Errorf("request %d: %+v", i, r)
		}
		if r := take(t, s, l, asks[i].Key, 0); r.Remaining != 99 {
			t.Errorf("request %d was charged otherwise than once: %+v", i, r)
		}
		n, err := link.home(background, link.slot("{"+s.hasher.Load().String(asks[i].Key)+"}"))
		if err != nil {
			t.Fatal(err)
		}
		nodes[n.addr] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the slots of all are thought to be on %v", nodes)
	}
}
