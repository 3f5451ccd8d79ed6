package source

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestLive: the ranges of a module are a list like any other (B18).
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ranges := prefixes("198.51.100.0/24 10.0.0.0/8 0.0.0.0/0 ::ffff:203.0.113.0/120")
		var w watcher
		s := Live("cdn", func() []netip.Prefix { turn(); return ranges }, Options{Report: w.report})
		p, err := s.Load()
		if err != nil || len(p.Prefixes) != 2 || p.RejectedCount != 1 || p.Rejected[0].Number != 3 || len(p.Stripped) != 1 || s.Name() != "cdn" {
			t.Fatalf("got %+v, %v", p, err)
		}
		w.start(t, s)
		after(time.Hour)
		if len(w.lists) != 0 || len(w.tries) != 61 {
			t.Errorf("nothing changed: %d lists, %d tries", len(w.lists), len(w.tries))
		}
		ranges = nil
		after(time.Minute)
		if st := s.Status(); len(w.lists) != 0 || st.Prefixes != 2 || st.Error != "is empty, and had 3 entries: it stays as it was" {
			t.Errorf("nothing is left: %d lists, %+v", len(w.lists), st)
		}
		ranges = prefixes("198.51.100.0/25 203.0.113.0/24")
		after(time.Minute)
		if w.last() != "198.51.100.0/25 203.0.113.0/24" || s.Status().Error != "" {
			t.Errorf("got %s, %+v", w.last(), s.Status())
		}
	})
}
