package config

import (
	"net/http"
	"net/netip"
	"slices"

	"github.com/weirhq/caddy-weir/limiter/people"
)

// crowds are the people behind addresses, as all handlers of a configuration see them.
type crowds struct {
	*people.Estimator
	bits prefixBits // the networks that count as one address
}

// seen says who was seen from a client's network.
func (c *crowds) seen(client netip.Addr) people.Seen {
	return c.Seen(string(c.bits.appendNetwork(nil, client)))
}

// A spotter notes who is behind an address, by what the zones of one handler say of it.
type spotter struct {
	crowds *crowds
	users  []template // of the zones that ask for people
}

// add makes a zone's users known.
func (s *spotter) add(z *zoneMeter, c *crowds) {
	if z.ban != nil && z.ban.allowance != nil {
		s.addUser(z.ban.user, c)
	}
	if z.feed != nil && z.feed.allowance != nil {
		s.addUser(z.feed.user, c)
	}
}

func (s *spotter) addUser(user template, c *crowds) {
	s.crowds = c
	if !slices.ContainsFunc(s.users, func(t template) bool { return slices.Equal(t, user) }) {
		s.users = append(s.users, user)
	}
}

// wants reports whether anybody asks for people.
func (s *spotter) wants() bool { return s.crowds != nil }

// spot notes who sent a request that has been answered. Only who got what he asked for counts:
// guesses at names do not make an address a crowd.
func (s *spotter) spot(r *http.Request, seen *Response) {
	if seen.Status < 200 || seen.Status >= 400 {
		return
	}
	client := ClientIP(r)
	if !client.IsValid() {
		return
	}
	var room [256]byte
	from := string(s.crowds.bits.appendNetwork(room[:0], client))
	found := false
	for _, t := range s.users {
		if name, filled := t.appendTo(room[:0], r, client); filled {
			s.crowds.See(from, people.User, string(name))
			found = true
		}
	}
	if !found {
		browser := append(append(room[:0], r.UserAgent()...), '\n')
		browser = append(browser, r.Header.Get("Accept-Language")...)
		s.crowds.See(from, people.Browser, string(browser))
	}
}
