package admin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/redislist"
)

// A newer keeper holds what cannot be read here.
type newer struct{ blocklist.Keeper }

func (k newer) Load(ctx context.Context) (blocklist.Content, error) {
	c, err := k.Keeper.Load(ctx)
	return c, errors.Join(err, &redislist.Unreadable{Problems: []error{errors.New(`rule "new": no field "shape"`)}})
}

// TestNewerListCanBeSwitchedOff changes a list that a newer version wrote to.
func TestNewerListCanBeSwitchedOff(t *testing.T) {
	d, ctx := desk(t), t.Context()
	must[Done](t)(d.Add(ctx, Add{Order: ann, Lines: []string{"a path=/a"}}))
	place := *d.Board.(Direct).Place
	place.Keeper = newer{place.Keeper}
	d = Desk{Direct{&place}}
	must[Done](t)(d.SetMode(ctx, SetMode{Order: ann, Mode: "off"}))
	l := must[List](t)(d.List(ctx, Narrow{}))
	if l.Mode != "off" || len(l.Rules) != 1 || !strings.Contains(l.Trouble, "shape") {
		t.Errorf("got %+v", l)
	}
}

// TestUndoNeedsForce takes back that a dangerous rule was taken out.
func TestUndoNeedsForce(t *testing.T) {
	d, ctx := desk(t), t.Context()
	sure := ann
	sure.Force = true
	must[Done](t)(d.Add(ctx, Add{Order: sure, Lines: []string{"a path=/*"}}))
	must[Done](t)(d.Remove(ctx, Remove{Order: ann, Names: []string{"a"}}))
	if _, err := d.Undo(ctx, Undo{Order: ann, Version: 2}); !errors.Is(err, ErrDanger) {
		t.Errorf("got %v", err)
	}
	must[Done](t)(d.Undo(ctx, Undo{Order: sure, Version: 2}))
}

// TestLinesAreCounted names a line by its number in what was sent.
func TestLinesAreCounted(t *testing.T) {
	d := desk(t)
	_, err := d.Add(t.Context(), Add{Order: ann, Lines: []string{"# stop", "", "a path=/a", "b path=b"}})
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
		t.Errorf("got %v", err)
	}
	if _, err := d.Add(t.Context(), Add{Order: ann, Lines: []string{"# nothing", ""}}); !errors.Is(err, blocklist.ErrRefused) {
		t.Errorf("got %v", err)
	}
}
