package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
)

// zonesStep is the step that looks at bans from zones.
const zonesStep = "zones"

// zoneBans returns a step for each zone from which a request's client is banned. doubt says that it
// is not known whether the request is one of theirs.
func (d Desk) zoneBans(ctx context.Context, r *blocklist.Request) (steps []blocklist.Step, doubt string, err error) {
	if r.Source == blocklist.Job || !r.Client.IsValid() {
		return nil, "", nil
	}
	content, err := d.Content(ctx)
	if err != nil || content.Bans.Len() == 0 {
		return nil, "", err
	}
	client := blocklist.Plain(r.Client)
	names, err := d.names(ctx, content, client.String(), client.BitLen())
	if err != nil {
		return nil, "", err
	}
	latest, now := make(map[string]*blocklist.Ban), d.Now()
	for b := range content.Bans.All() {
		if b.Scope.Kind != blocklist.ScopeZone || b.Bits == 0 || !names[b.Key] || b.Over(now) {
			continue
		}
		if last := latest[b.Scope.Name]; last == nil || b.Until.After(last.Until) {
			latest[b.Scope.Name] = b
		}
	}
	for name, b := range latest {
		step := blocklist.Step{Name: zonesStep, Ban: b, From: name}
		spared := ""
		switch zone, known, err := d.Zone(name); {
		case err != nil:
			spared = err.Error()
		case known:
			spared = zone.Spares(r)
		default:
			spared = "which requests are the zone's is not known here"
			doubt = fmt.Sprintf("the client is banned from zone %q, and whether the request is the zone's is not known here", name)
		}
		step.Says = spared == ""
		step.Why = fmt.Sprintf("banned from zone %s by %s until %s", name, b.Origin, b.Until.UTC().Format(time.RFC3339))
		if spared != "" {
			step.Why = spared + "; " + step.Why
		}
		steps = append(steps, step)
	}
	slices.SortFunc(steps, func(a, b blocklist.Step) int { return strings.Compare(a.From, b.From) })
	return steps, doubt, nil
}

// withZones puts what zones say behind all of the list that refuses: they stand behind block.
func withZones(steps, zones []blocklist.Step) []blocklist.Step {
	at := slices.IndexFunc(steps, func(s blocklist.Step) bool { return s.Name == "marks" })
	if at < 0 {
		at = len(steps)
	}
	return slices.Insert(slices.Clone(steps), at, zones...)
}
