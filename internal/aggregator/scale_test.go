package aggregator

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestFactor(t *testing.T) {
	for _, c := range []struct {
		scale Scale
		n     int64
		most  int
		want  int
	}{
		{Log2, 0, 10, 1},
		{Log2, 1, 10, 1},
		{Log2, 2, 10, 2},
		{Log2, 3, 10, 2},
		{Log2, 50, 10, 6},
		{Log2, 512, 10, 10},
		{Log2, 1_000_000, 10, 10},
		{Log2, 1_000_000, 1000, 20},
		{Log2, mostSubscribers, 3, 3},
		{Sqrt, 0, 10, 1},
		{Sqrt, 3, 10, 1},
		{Sqrt, 4, 10, 2},
		{Sqrt, 50, 10, 7},
		{Sqrt, 101, 10, 10},
		{Sqrt, mostSubscribers, 100_000, 31622},
	} {
		if got := c.scale.Factor(c.n, c.most); got != c.want {
			t.Errorf("%s of %d, at most %d: %d, want %d", Scales[c.scale], c.n, c.most, got, c.want)
		}
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestAudience: the largest number of a day counts, one service's feed-ids and addresses are not
// added up, and each feed of each service has its own.
func TestAudience(t *testing.T) {
	a, now := NewAudience(), start
	for i, step := range []struct {
		after time.Duration
		who   string
		feed  string
		n     int64
		want  int64
	}{
		{0, "feedly", "a", 40, 40},
		{time.Minute, "feedly", "a", 3, 40},
		{time.Minute, "feedly", "a", 40, 40},
		{time.Minute, "feedly", "a", 0, 40},
		{time.Minute, "feedly", "b", 7, 7},
		{time.Minute, "newsblur", "a", 5, 5},
		{23 * time.Hour, "feedly", "a", 3, 40},
		// A day after forty were last spoken of.
		{time.Hour, "feedly", "a", 3, 3},
		{time.Minute, "feedly", "a", 5, 5},
		{24 * time.Hour, "feedly", "a", 0, 0},
	} {
		now = now.Add(step.after)
		if got := a.Largest(step.who, []byte(step.feed), step.n, now); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
}

// TestAudienceIsBounded: a service that asks for paths without end takes no more room.
func TestAudienceIsBounded(t *testing.T) {
	a := NewAudience()
	for i := range 3 * mostAudiences {
		a.Largest("feedly", fmt.Appendf(nil, "/%d", i), 5, start)
	}
	if n := len(a.said); n > mostAudiences {
		t.Errorf("%d kept", n)
	}
}

func TestDomains(t *testing.T) {
	d, err := ParseDomains([]string{".Feedly.com", "fetch.example.org.", "feedly.com"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"feedly.com.": true, "a.feedly.com.": true, "A.B.FEEDLY.COM": true, "x.fetch.example.org": true,
		"evilfeedly.com.": false, "feedly.com.evil.net.": false, "example.org.": false, "com.": false, "": false, ".": false,
		"x feedly.com": false, "feedly.com fetch.example.org": false,
	} {
		if got := d.holds(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	if (Domains{}).holds("feedly.com") || !(Domains{}).empty() || d.empty() {
		t.Error("no domain holds something")
	}
	other, _ := ParseDomains([]string{"fetch.example.org", "feedly.com"})
	if d != other {
		t.Errorf("%q, and %q in another order", d, other)
	}
	for _, bad := range []string{"", ".", "com", "a..b", "*.feedly.com", "feedly.com:53", "fée.example", strings.Repeat("a", 64) + ".example"} {
		if _, err := ParseDomains([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestRented(t *testing.T) {
	d, err := ParseDomains([]string{"feedly.com", "eu-west-1.compute.amazonaws.com", "googleusercontent.com", "gae.googleusercontent.com", "aws.com"})
	if got := d.Rented(); err != nil || fmt.Sprint(got) != "[eu-west-1.compute.amazonaws.com googleusercontent.com]" {
		t.Errorf("%v, %v", got, err)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
