package admin

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// A whom is who is to be banned.
type whom struct {
	// text is what is banned, of which the list has the name; bits is its length, 0 of a key.
	text string
	bits int
	// client is the network in clear; empty for a key, which may be a secret.
	client string
	// warning says what is unlike what was asked for, or may be.
	warning string
}

// whom reads whom a ban is for. What is given as an address alone is the network that stands for such a
// client; and what is banned from a zone is what the zone counts by.
func (d Desk) whom(b *BanKey, within blocklist.Scope) (whom, error) {
	text, bits, err := subject(b.Client, b.Key)
	if err != nil {
		return whom{}, err
	}
	if b.Client == "" {
		return d.whoseKey(text, within)
	}
	if bits == 0 {
		return whom{}, fmt.Errorf("client: must be a part of all addresses, got %s: to refuse everybody, add a rule", text)
	}
	client, err := blocklist.ParsePrefix(b.Client)
	if err != nil {
		return whom{}, fmt.Errorf("client: %w", err)
	}
	given, written := client, strings.Contains(b.Client, "/")
	if !written {
		client = d.Network(client.Addr())
	}
	warning := ""
	if within.Kind == blocklist.ScopeZone {
		zone, known, err := d.Zone(within.Name)
		switch {
		case err != nil:
			return whom{}, fmt.Errorf("scope: %w", err)
		case !known:
			warning = fmt.Sprintf("what zone %q counts by is not known here: the ban does nothing unless it is networks of /%d", within.Name, client.Bits())
		default:
			if client, err = zone.Fit(given); err != nil {
				return whom{}, fmt.Errorf("client: %w", err)
			}
			if client.Bits() < given.Bits() && (written || given.Addr().Is4()) {
				warning = fmt.Sprintf("zone %q counts by networks of /%d: all of %s is banned from it", within.Name, client.Bits(), client)
			}
		}
	}
	text = string(blocklist.Network(nil, client))
	return whom{text, client.Bits(), text, warning}, nil
}

// whoseKey reads the key of a zone.
func (d Desk) whoseKey(key string, within blocklist.Scope) (whom, error) {
	if within.Kind != blocklist.ScopeZone {
		return whom{}, errors.New("key: belongs to a zone, name it by the scope zone:NAME; for a site or for all, ban a client")
	}
	zone, known, err := d.Zone(within.Name)
	switch {
	case err != nil:
		return whom{}, fmt.Errorf("scope: %w", err)
	case known:
		if err := zone.CheckKey(); err != nil {
			return whom{}, fmt.Errorf("key: %w", err)
		}
	}
	return whom{text: key}, nil
}

// usualNetwork is the network that stands for a client where no configuration says how long those are.
func usualNetwork(client netip.Addr) netip.Prefix {
	bits := client.BitLen()
	if client.Is6() {
		bits = 64
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return netip.PrefixFrom(client, client.BitLen())
	}
	return network
}
