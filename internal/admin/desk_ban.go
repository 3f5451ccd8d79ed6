package admin

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Ban keeps a client out for a while.
func (d Desk) Ban(ctx context.Context, b BanKey) (Done, error) {
	now := d.Now()
	ban := blocklist.Ban{Since: now, Origin: b.By, Note: b.Note}
	var err error
	if ban.Scope, err = scope(b.Scope); err != nil {
		return Done{}, blocklist.Refuse(err)
	}
	who, err := d.whom(&b, ban.Scope)
	if err != nil {
		return Done{}, blocklist.Refuse(err)
	}
	if ban.Until, err = end(b.Until, now); err != nil {
		return Done{}, blocklist.Refuse(fmt.Errorf("until: %w", err))
	}
	if ban.Until.IsZero() {
		ban.Until = now.Add(blocklist.DefaultLife)
	}
	ban.Bits, ban.Evidence.Client = who.bits, who.client
	if ban.Key, err = d.Name(ctx, who.text); err != nil {
		return Done{}, err
	}
	done, err := d.apply(ctx, &b.Order, blocklist.Change{Ban: []blocklist.Ban{ban}})
	if err != nil {
		return Done{}, err
	}
	done.Whom = who.text
	if who.warning != "" {
		done.Warnings = append(done.Warnings, who.warning)
	}
	return done, nil
}

// Lift ends bans.
func (d Desk) Lift(ctx context.Context, l Lift) (Done, error) {
	content, err := d.Content(ctx)
	if err != nil {
		return Done{}, err
	}
	var c blocklist.Change
	if l.ID != "" {
		if l.Client != "" || l.Key != "" || l.Scope != "" {
			return Done{}, blocklist.Refuse(errors.New("id: names one ban, and goes with nothing else"))
		}
		id, err := blocklist.ParseBanID(l.ID)
		if err != nil {
			return Done{}, blocklist.Refuse(fmt.Errorf("id: %w", err))
		}
		c.Lift = append(c.Lift, id)
	} else if c.Lift, err = d.bansOf(ctx, &l, content); err != nil {
		return Done{}, err
	}
	return d.apply(ctx, &l.Order, c)
}

// bansOf returns the bans of a client or a key.
func (d Desk) bansOf(ctx context.Context, l *Lift, content blocklist.Content) ([]blocklist.BanID, error) {
	text, bits, err := subject(l.Client, l.Key)
	if err != nil {
		return nil, blocklist.Refuse(err)
	}
	within, err := scope(l.Scope)
	if err != nil {
		return nil, blocklist.Refuse(err)
	}
	names, err := d.names(ctx, content, text, bits)
	if err != nil {
		return nil, err
	}
	var ids []blocklist.BanID
	for b := range content.Bans.All() {
		if names[b.Key] && (l.Scope == "" || b.Scope == within) {
			ids = append(ids, b.ID())
		}
	}
	if len(ids) == 0 {
		return nil, blocklist.Refuse(fmt.Errorf("no ban of %s", text))
	}
	return ids, nil
}

// names returns what bans may call a client: an address is in networks of several lengths, of
// which those count that bans have.
func (d Desk) names(ctx context.Context, content blocklist.Content, text string, bits int) (map[string]bool, error) {
	texts := []string{text}
	if addr, err := netip.ParseAddr(text); err == nil && bits > 0 {
		var lengths [129]bool
		for b := range content.Bans.All() {
			lengths[b.Bits] = true
		}
		for n := 1; n < addr.BitLen(); n++ {
			if network, err := addr.Prefix(n); err == nil && lengths[n] {
				texts = append(texts, string(blocklist.Network(nil, network)))
			}
		}
	}
	names := make(map[string]bool, len(texts))
	for _, text := range texts {
		name, err := d.Name(ctx, text)
		if err != nil {
			return nil, err
		}
		names[name] = true
	}
	return names, nil
}

// subject returns the text that names a client, with its length in bits, or a key.
func subject(client, key string) (text string, bits int, err error) {
	switch {
	case client != "" && key != "":
		return "", 0, errors.New("client and key: only one of them")
	case key != "":
		return key, 0, nil
	case client == "":
		return "", 0, errors.New("client: must be an address or a network")
	}
	network, err := blocklist.ParsePrefix(client)
	if err != nil {
		return "", 0, fmt.Errorf("client: %w", err)
	}
	return string(blocklist.Network(nil, network)), network.Bits(), nil
}

// scope reads a scope; all if the text is empty. A site's name may be written in any case.
func scope(text string) (blocklist.Scope, error) {
	if text == "" {
		return blocklist.Scope{}, nil
	}
	s, err := blocklist.ParseScope(strings.TrimSpace(text))
	if err != nil {
		return s, fmt.Errorf("scope: %w", err)
	}
	return s, nil
}
