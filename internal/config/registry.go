package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weirhq/caddy-weir/limiter"
)

// A registry knows the zones of one configuration by name. Zones of one name are one
// zone and share what is counted, so they have to be defined alike.
type registry map[string]registered

type registered struct {
	fields map[string]json.RawMessage
	place  string
	plain  bool
}

// add registers a zone that stands in the handler at place. It must be called before
// the zone's modules are loaded, which takes their JSON away.
func (g registry) add(r report, name, place string, z *Zone, app *App) {
	fields, err := definition(z, app)
	if err != nil {
		r.problem(err)
		return
	}
	first, known := g[name]
	if !known {
		g[name] = registered{fields: fields, place: place, plain: z.isPlain()}
		return
	}
	field := difference(first.fields, fields)
	switch {
	case field == "":
	case first.plain && z.isPlain():
		r.in("%s", field).warn("differs from that of the zone of the same name; both spend one budget")
	default:
		r.in("%s", field).problemf("%s in %s, but %s in %s: zones of one name are one zone and must be defined alike",
			show(first.fields[field]), first.place, show(fields[field]), place)
	}
}

// isPlain reports whether the zone says nothing that mholt/caddy-ratelimit does not
// know, where zones of one name may differ.
func (z *Zone) isPlain() bool {
	rest := *z
	rest.MatcherSets, rest.Key, rest.MaxEvents, rest.Window = nil, nil, nil, 0
	rest.IPv4Prefix, rest.IPv6Prefix = 0, 0
	fields, err := fieldsOf(&rest)
	return err == nil && len(fields) == 0
}

// definition returns what the zone means, by JSON name: its fields with their
// defaults filled in, and all that makes limits as one list of texts.
func definition(z *Zone, app *App) (map[string]json.RawMessage, error) {
	limits := z.limits("")
	number(limits)
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = fmt.Sprintf("%d/%s %s", l.Events, limiter.ShortDuration(l.Window), l.Algorithm)
		switch l.Algorithm {
		case limiter.InFlight:
			texts[i] = fmt.Sprintf("%d in_flight", l.Events)
		case limiter.TokenBucket:
			texts[i] += fmt.Sprintf(" burst %d", l.Burst)
		}
	}
	c := *z
	c.Limits = nil
	c.Key, c.Feed, c.Previews = z.parts(), z.Feed.resolved(), z.Previews.resolved()
	c.Ban = z.Ban.resolved()
	c.MaxEvents, c.Window, c.Algorithm, c.Burst, c.MinInterval, c.InFlight = nil, 0, "", 0, 0, 0
	setDefault(&c.Cost, "1")
	setDefault(&c.OnEmptyKey, emptyClientIP)
	setDefault(&c.IPv4Prefix, app.IPv4Prefix)
	setDefault(&c.IPv6Prefix, app.IPv6Prefix)
	fields, err := fieldsOf(&c)
	if err != nil {
		return nil, err
	}
	fields["limits"], err = json.Marshal(texts)
	return fields, err
}

func fieldsOf(z *Zone) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(z)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(text, &fields)
	return fields, err
}

// difference names the first field in which two definitions differ, "" if they are
// equal.
func difference(a, b map[string]json.RawMessage) string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range names {
		if !bytes.Equal(a[name], b[name]) {
			return name
		}
	}
	return ""
}

// show writes a field's value for a message, cut to a readable length.
func show(value json.RawMessage) string {
	const most = 120
	switch {
	case value == nil:
		return "absent"
	case len(value) > most:
		return fmt.Sprintf("%s...", value[:most])
	}
	return string(value)
}
