package source

import (
	"context"
	"crypto/sha256"
	"net/netip"
	"time"
)

// askEvery is how often a function is asked.
const askEvery = time.Minute

// A live source is a function that answers with ranges.
type live struct {
	keeper
	get func() []netip.Prefix
}

// Live makes a source of a function that knows ranges of its own, such as those that
// Caddy's modules for IP sources fetch; it is asked once a minute. Its answer is judged,
// and cut, like any other list; the number of a rejected line is the place in the
// answer. The function must not wait for a network.
func Live(name string, get func() []netip.Prefix, o Options) Source {
	o.Name, o.Format = name, Plain
	l := &live{get: get}
	l.init(o, name, func(text string) string { return text })
	return l
}

// Load asks once.
func (l *live) Load() (Parsed, error) {
	l.load.Lock()
	defer l.load.Unlock()
	p, _, err := l.ask(time.Now())
	return p, err
}

func (l *live) ask(now time.Time) (p Parsed, differs bool, err error) {
	c, sum := newCollector(l.options.Limits), sha256.New()
	for i, prefix := range l.get() {
		text := prefix.String()
		sum.Write(append([]byte(text), '\n'))
		if err = c.add(i+1, text, forever); err != nil {
			break
		}
	}
	if err == nil {
		p, err = c.parsed(Plain)
	}
	if err == nil {
		p, differs, err = l.accept(p, [32]byte(sum.Sum(nil)), now)
	}
	if err != nil {
		return Parsed{}, false, l.bad(now, err)
	}
	l.good(now, now)
	return p, differs, nil
}

// Watch asks until ctx ends.
func (l *live) Watch(ctx context.Context, changed func(Parsed, Status)) error {
	done, err := l.watch()
	if err != nil {
		return err
	}
	defer done()
	for {
		l.load.Lock()
		if p, differs, err := l.ask(time.Now()); err == nil && differs {
			changed(p, l.Status())
		}
		l.report()
		l.load.Unlock()
		if !until(ctx, time.Now().Add(askEvery)) {
			return nil
		}
	}
}
