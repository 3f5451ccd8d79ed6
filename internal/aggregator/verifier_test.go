package aggregator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A zoneFile is a DNS of names by address and addresses by name.
type zoneFile struct {
	mu    sync.Mutex
	names map[string][]string
	hosts map[string][]string
	fails error
	slow  time.Duration

	asked         []string
	under, beside int // look-ups under way, and the most there were at once
}

func (z *zoneFile) enter(ctx context.Context, what string) error {
	z.mu.Lock()
	z.asked = append(z.asked, what)
	z.under++
	z.beside = max(z.beside, z.under)
	slow := z.slow
	z.mu.Unlock()
	defer func() {
		z.mu.Lock()
		z.under--
		z.mu.Unlock()
	}()
	if slow > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slow):
		}
	}
	return nil
}

var errNoSuchHost = &net.DNSError{Err: "no such host", IsNotFound: true}

func (z *zoneFile) LookupAddr(ctx context.Context, address string) ([]string, error) {
	if err := z.enter(ctx, address); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if names := z.names[address]; z.fails == nil && len(names) > 0 {
		return names, nil
	} else if z.fails == nil {
		return nil, errNoSuchHost
	}
	return nil, z.fails
}

func (z *zoneFile) LookupNetIP(ctx context.Context, network, host string) (all []netip.Addr, err error) {
	if err := z.enter(ctx, network+" "+host); err != nil {
		return nil, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, text := range z.hosts[host] {
		if a := addr(text); a.Is4() == (network == "ip4") {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, errNoSuchHost
	}
	return all, nil
}

func (z *zoneFile) questions() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.asked)
}

func domains(t testing.TB, texts ...string) Domains {
	t.Helper()
	d, err := ParseDomains(texts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestConfirm: the name has to lie in a domain and to lead back; whoever owns an address
// can give it any name.
func TestConfirm(t *testing.T) {
	z := &zoneFile{
		names: map[string][]string{
			"192.0.2.1":   {"f1.feedly.example."},
			"192.0.2.2":   {"forged.feedly.example."}, // leads elsewhere
			"192.0.2.3":   {"host.evil.example."},     // is elsewhere
			"192.0.2.4":   {"gone.feedly.example."},   // leads nowhere
			"192.0.2.5":   {"x.example.", "f5.feedly.example."},
			"192.0.2.6":   {"feedly.example.evil.test."}, // only looks like it
			"192.0.2.7":   manyNames("f7.feedly.example."),
			"2001:db8::1": {"f1.feedly.example."},
			"2001:db8::2": {"f1.feedly.example."},
		},
		hosts: map[string][]string{
			"f1.feedly.example.": {"192.0.2.1", "2001:db8::1"}, "forged.feedly.example.": {"192.0.2.1"},
			"host.evil.example.": {"192.0.2.3"}, "f5.feedly.example.": {"192.0.2.9", "192.0.2.5"},
			"feedly.example.evil.test.": {"192.0.2.6"}, "f7.feedly.example.": {"192.0.2.7"},
		},
	}
	for client, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": false, "192.0.2.3": false, "192.0.2.4": false, "192.0.2.5": true, "192.0.2.6": false,
		"192.0.2.7": false, "192.0.2.8": false, "2001:db8::1": true, "2001:db8::2": false,
	} {
		z.asked = nil
		got, err := confirm(t.Context(), z, subject{addr(client), domains(t, "feedly.example")})
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", client, got, err)
		}
		if len(z.asked) > 1+mostNames {
			t.Errorf("%s: %d questions", client, len(z.asked))
		}
	}
}

// manyNames is a name behind as many others as are tried.
func manyNames(last string) (all []string) {
	for i := range mostNames {
		all = append(all, fmt.Sprintf("x%d.feedly.example.", i))
	}
	return append(all, last)
}

// running runs a verifier until the test ends. It must be in a bubble.
func running(t *testing.T, o Options) *Verifier {
	v := NewVerifier(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return v
}

// theirs is a DNS where one address is a service's.
func theirs() *zoneFile {
	return &zoneFile{
		names: map[string][]string{"192.0.2.1": {"f1.feedly.example."}},
		hosts: map[string][]string{"f1.feedly.example.": {"192.0.2.1"}},
	}
}

// TestVerifier: the first request is unknown, later ones are not; answers count as long as they
// should, and an outage of the DNS takes nothing away for a day.
func TestVerifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := theirs()
		var told []error
		v := running(t, Options{Resolver: z, Told: func(err error) { told = append(told, err) }})
		d := domains(t, "feedly.example")
		want := func(step, client string, want Verdict) {
			t.Helper()
			if got := v.Verify(addr(client), d, time.Now()); got != want {
				t.Errorf("%s: %s is %s, want %s", step, client, got, want)
			}
			time.Sleep(10 * time.Second) // what was asked is looked up meanwhile
		}
		want("at first", "192.0.2.1", Unknown)
		want("looked up", "192.0.2.1", Verified)
		want("a stranger", "203.0.113.1", Unknown)
		want("looked up", "203.0.113.1", Forged)
		before := z.questions()
		time.Sleep(50 * time.Minute)
		want("within the hour", "203.0.113.1", Forged)
		want("within the day", "192.0.2.1", Verified)
		if n := z.questions(); n != before {
			t.Errorf("%d questions about what is known", n-before)
		}
		time.Sleep(10 * time.Minute)
		want("an hour later", "203.0.113.1", Unknown)
		want("looked up again", "203.0.113.1", Forged)

		z.mu.Lock()
		z.fails = errors.New("the DNS is away")
		z.mu.Unlock()
		time.Sleep(24 * time.Hour)
		want("during an outage", "192.0.2.1", Verified)
		before = z.questions()
		want("still", "192.0.2.1", Verified)
		want("of a new one nothing is known", "198.51.100.1", Unknown)
		want("still not", "198.51.100.1", Unknown)
		if n := z.questions(); n != before+1 {
			t.Errorf("%d questions in a moment of an outage, want 1", n-before)
		}
		time.Sleep(23 * time.Hour)
		want("the day is over", "192.0.2.1", Unknown)
		z.mu.Lock()
		z.fails = nil
		z.mu.Unlock()
		time.Sleep(10 * time.Minute)
		want("the DNS is back", "192.0.2.1", Unknown)
		want("the DNS is back", "192.0.2.1", Verified)

		z.mu.Lock()
		delete(z.names, "192.0.2.1")
		z.mu.Unlock()
		time.Sleep(25 * time.Hour)
		want("given up by its owner", "192.0.2.1", Verified)
		want("looked up", "192.0.2.1", Forged)
		if len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Errorf("told %v, want of one outage and its end", told)
		}
	})
}

// TestVerifierKeepsDomainsApart: an address of one service is not another's.
func TestVerifierKeepsDomainsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := theirs()
		v := running(t, Options{Resolver: z})
		for range 2 {
			v.Verify(addr("192.0.2.1"), domains(t, "feedly.example"), time.Now())
			time.Sleep(10 * time.Second)
			v.Verify(addr("192.0.2.1"), domains(t, "newsblur.example"), time.Now())
			time.Sleep(10 * time.Second)
		}
		one := v.Verify(addr("192.0.2.1"), domains(t, "feedly.example"), time.Now())
		other := v.Verify(addr("192.0.2.1"), domains(t, "newsblur.example"), time.Now())
		if one != Verified || other != Forged {
			t.Errorf("%s and %s", one, other)
		}
	})
}

// TestVerifierInAFlood: forgers from any number of addresses make no more than a look-up a
// second, take no more room, and neither keep a service from being found nor one that is known
// from being confirmed.
func TestVerifierInAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoneFile{
			names: map[string][]string{"192.0.2.1": {"f1.feedly.example."}, "198.51.100.1": {"f1.feedly.example."}},
			hosts: map[string][]string{"f1.feedly.example.": {"192.0.2.1", "198.51.100.1"}},
		}
		v := running(t, Options{Resolver: z})
		d := domains(t, "feedly.example")
		v.Verify(addr("192.0.2.1"), d, time.Now())
		time.Sleep(24 * time.Hour)
		asked, i := z.questions(), 0
		found := time.Duration(-1)
		for second := range 3600 {
			for range 30 { // of one who owns an IPv6 /48, and of a few others
				i++
				v.Verify(addr(fmt.Sprintf("2001:db8:1:%x:%x::1", i>>16, i&0xffff)), d, time.Now())
				v.Verify(addr(fmt.Sprintf("203.0.%d.%d", i%20, i%250)), d, time.Now())
			}
			if second == 30 && v.Verify(addr("192.0.2.1"), d, time.Now()) != Verified {
				t.Error("a known service is not so any more")
			}
			// One that is new comes into the middle of it.
			if second >= 600 && v.Verify(addr("198.51.100.1"), d, time.Now()) == Verified && found < 0 {
				found = time.Duration(second-600) * time.Second
			}
			time.Sleep(time.Second)
		}
		if found < 0 || found > time.Minute {
			t.Errorf("the service was found after %s", found)
		}
		// Each look-up is one question, and two for the services.
		if n := z.questions() - asked; n < 3000 || n > 3620 {
			t.Errorf("%d questions in an hour, want one a second", n)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.queue.waiting) > mostWaiting || len(v.answers) > mostAnswers {
			t.Errorf("%d wait, %d answers", len(v.queue.waiting), len(v.answers))
		}
		if a := v.answers[subject{addr("192.0.2.1"), d}]; !a.next.After(time.Now().Add(22 * time.Hour)) {
			t.Errorf("the known service was not looked up again: %v", a)
		}
	})
}

// TestConfirmedGoFirst: a queue of strangers does not keep those who are known from being confirmed: they have three turns of
// four.
func TestConfirmedGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoneFile{names: make(map[string][]string), hosts: make(map[string][]string)}
		var known []string
		for i := range 10 {
			client, name := fmt.Sprintf("192.%d.2.1", i), fmt.Sprintf("f%d.feedly.example.", i)
			known = append(known, client)
			z.names[client], z.hosts[name] = []string{name}, []string{client}
		}
		v := running(t, Options{Resolver: z})
		d := domains(t, "feedly.example")
		ask := func() {
			for _, client := range known {
				v.Verify(addr(client), d, time.Now())
			}
		}
		ask()
		time.Sleep(confirmedFor + time.Minute)
		before := z.questions()
		for i := range 200 {
			v.Verify(netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), d, time.Now())
		}
		ask()
		time.Sleep(15 * time.Second)
		z.mu.Lock()
		defer z.mu.Unlock()
		for _, client := range known {
			if !slices.Contains(z.asked[before:], client) {
				t.Errorf("%s waits, asked were %q", client, z.asked[before:])
			}
		}
	})
}

// TestVerifierIsBounded: neither what waits nor what is known grows without end.
func TestVerifierIsBounded(t *testing.T) {
	v := NewVerifier(Options{Resolver: new(zoneFile), Now: func() time.Time { return start }})
	d := domains(t, "feedly.example")
	for i := range 3 * mostAnswers {
		who := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		v.Verify(who, d, start)
		v.learn(subject{who, d}, i%2 == 0, nil)
	}
	if n := len(v.answers); n > mostAnswers || n < mostAnswers/2 {
		t.Errorf("%d answers", n)
	}
	if n := len(v.queue.waiting); n == 0 || n > mostWaiting {
		t.Errorf("%d wait", n)
	}
}

// TestLookUpsAtOnce: a DNS that does not answer holds up four look-ups and nobody else, each for
// its time.
func TestLookUpsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoneFile{slow: time.Hour}
		v := running(t, Options{Resolver: z, Timeout: 20 * time.Second})
		for i := range 100 {
			v.Verify(netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), domains(t, "feedly.example"), time.Now())
		}
		time.Sleep(60 * time.Second)
		z.mu.Lock()
		if z.beside != 4 {
			t.Errorf("%d look-ups at once", z.beside)
		}
		z.mu.Unlock()
		if n := z.questions(); n < 11 || n > 14 { // four in each twenty seconds
			t.Errorf("%d look-ups in a minute", n)
		}
	})
}

// TestOneRuns: of two that run one works, the other takes over, and what waited is not lost.
func TestOneRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := new(zoneFile)
		v := NewVerifier(Options{Resolver: z})
		first, stop := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		second, end := context.WithCancel(t.Context())
		defer end()
		work.Go(func() { v.Run(first) })
		synctest.Wait()
		work.Go(func() { v.Run(second) })
		for i := range 40 {
			v.Verify(netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), domains(t, "feedly.example"), time.Now())
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := z.questions(); n < 9 || n > 11 {
			t.Errorf("%d look-ups in ten seconds", n)
		}
		stop()
		time.Sleep(time.Minute)
		if n := z.questions(); n != 40 {
			t.Errorf("%d of 40 looked up", n)
		}
	})
}
