package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Bounds of a ban.
const (
	// MaxKey is the longest key of a ban, in bytes.
	MaxKey = 512
	// MaxEvidence is the longest text of a ban's evidence, in bytes; longer ones are
	// cut, see [Evidence.Fit].
	MaxEvidence = 256
)

// A Ban keeps one key out for a while. It must not change once it is part of a [Content].
//
// Bans of one key by several origins, or of several scopes, stand side by side; of those that
// reach a request the latest end counts.
type Ban struct {
	// Zone whose counting made the ban; empty if an operator did.
	Zone string
	// Scope is what the ban reaches.
	Scope Scope
	// Key is what the key is called: its keyed hash, or the key itself where keys are
	// not hashed. See Bits.
	Key string
	// Bits is how many leading bits of a client's address the key stands for, 1 to 128, of an IPv4
	// address at most 32; 0 if the key is something else. Bans for a site or for all are
	// enforced by block if the key is of an address, which it names by the text of its network:
	// 192.0.2.1, 2001:db8:1:2::/64.
	Bits int
	// Parent is what the network around the address is called, for roll-up; may be empty.
	Parent string
	// Since and Until are when the ban begins and ends, by absolute time. Every node
	// enforces the end by itself.
	Since, Until time.Time
	// Forget is until when the ban is remembered, so that its Count is known to the next one.
	// Default, and at least: Until.
	Forget time.Time
	// Count is how many times the key was banned by this origin so far, this one included;
	// 0 for an operator's.
	Count int
	// Origin is who made the ban: a zone's name, or an operator. Required.
	Origin string
	// Note is for people.
	Note string
	// Evidence is what the ban was made for.
	Evidence Evidence
}

// Evidence is what a ban was made for. All of it may be absent.
type Evidence struct {
	// Reason in the words of the zone, such as "5 responses of status 401 in 1m".
	Reason string
	// Host, Path and UserAgent of the last request, and the Status of its answer.
	Host, Path, UserAgent string
	Status                int
	// Hits is how many requests were counted.
	Hits int64
	// At is when the last of them came.
	At time.Time
	// Client is the address in clear: what an operator named, or, of a zone's ban, the last client's,
	// only if the site logs keys.
	Client string
}

// BanID tells a ban from all others: a ban that is applied replaces the one with its ID.
type BanID struct {
	Scope  Scope
	Origin string
	Key    string
}

// ID returns what tells the ban from all others.
func (b *Ban) ID() BanID { return BanID{b.Scope, b.Origin, b.Key} }

// network returns the network that the key stands for; false if that is not known in clear.
func (b *Ban) network() (netip.Prefix, bool) {
	client, err := ParsePrefix(b.Evidence.Client)
	if err != nil || b.Bits == 0 || client.Bits() < b.Bits {
		return netip.Prefix{}, false
	}
	network, err := client.Addr().Prefix(b.Bits)
	return network, err == nil
}

// Over reports whether the ban has ended.
func (b *Ban) Over(now time.Time) bool { return !now.Before(b.Until) }

// forget returns until when the ban is remembered.
func (b *Ban) forget() time.Time {
	if b.Forget.After(b.Until) {
		return b.Forget
	}
	return b.Until
}

// Forgotten reports whether the ban has ended and nobody needs to know of it any more.
func (b *Ban) Forgotten(now time.Time) bool { return !now.Before(b.forget()) }

// String returns the ID's text form, one line: scope, origin and key, each in quotes if it
// needs them.
func (id BanID) String() string {
	b := appendValue(nil, id.Scope.String(), "")
	b = appendValue(append(b, ' '), id.Origin, "")
	return string(appendValue(append(b, ' '), id.Key, ""))
}

// ParseBanID reads what String writes.
func ParseBanID(text string) (BanID, error) {
	var parts [3]string
	rest := text
	for i := range parts {
		var err error
		if parts[i], rest, err = cutValue(strings.TrimLeft(rest, " \t")); err != nil {
			return BanID{}, err
		}
	}
	if strings.TrimLeft(rest, " \t") != "" || parts[2] == "" {
		return BanID{}, fmt.Errorf("must be scope, origin and key of a ban, got %q", text)
	}
	scope, err := ParseScope(parts[0])
	if err != nil {
		return BanID{}, fmt.Errorf("scope: %w", err)
	}
	return BanID{scope, parts[1], parts[2]}, nil
}

// Fit cuts what is too long to be kept, and takes out what is no printable text: most of it
// was written by the client.
func (e *Evidence) Fit() {
	for _, text := range []*string{&e.Reason, &e.Host, &e.Path, &e.UserAgent, &e.Client} {
		if checkText(*text) != nil {
			*text = strings.Map(printable, strings.ToValidUTF8(*text, "�"))
		}
		if len(*text) > MaxEvidence {
			*text = strings.ToValidUTF8((*text)[:MaxEvidence-len("…")], "") + "…"
		}
	}
}

// Check joins everything that is wrong with the ban into one error, each line with its key.
func (b *Ban) Check() error {
	var problems []error
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("ban %q: "+format, append([]any{b.Key}, args...)...))
	}
	if checkText(b.Key) != nil || len(b.Key) > MaxKey {
		problem("key: must be 1 to %d bytes of printable text", MaxKey)
	}
	if checkText(b.Origin) != nil || len(b.Origin) > MaxName {
		problem("origin: must be 1 to %d bytes of printable text", MaxName)
	}
	if err := b.Scope.check(); err != nil {
		problem("scope: %w", err)
	}
	for _, t := range []struct{ name, text string }{
		{"zone", b.Zone},
		{"parent", b.Parent},
		{"note", b.Note},
		{"reason", b.Evidence.Reason},
		{"host", b.Evidence.Host},
		{"path", b.Evidence.Path},
		{"user_agent", b.Evidence.UserAgent},
		{"client", b.Evidence.Client},
	} {
		if t.text != "" && (checkText(t.text) != nil || len(t.text) > MaxKey) {
			problem("%s: must be one line of printable text, at most %d bytes", t.name, MaxKey)
		}
	}
	if b.Bits < 0 || b.Bits > 128 {
		problem("bits: must be from 0 to 128, got %d", b.Bits)
	}
	if b.Count < 0 || b.Evidence.Status < 0 || b.Evidence.Hits < 0 {
		problem("count, status and hits: must not be negative")
	}
	if b.Until.IsZero() {
		problem("until: must be a time")
	}
	for _, at := range []time.Time{b.Since, b.Until, b.Forget, b.Evidence.At} {
		if err := checkTime(at); err != nil {
			problem("%w", err)
		}
	}
	return errors.Join(problems...)
}

// String returns the ban's text form: one line, its key, then word=value pairs.
func (b *Ban) String() string {
	out := appendValue(nil, b.Key, "=#")
	pair := func(word, value string) {
		if value != "" {
			out = append(append(append(out, ' '), word...), '=')
			out = appendValue(out, value, "")
		}
	}
	number := func(word string, n int64) {
		if n != 0 {
			pair(word, strconv.FormatInt(n, 10))
		}
	}
	pair("scope", b.Scope.String())
	pair("origin", b.Origin)
	pair("until", formatTime(b.Until))
	pair("since", formatTime(b.Since))
	pair("forget", formatTime(b.Forget))
	pair("zone", b.Zone)
	number("bits", int64(b.Bits))
	pair("parent", b.Parent)
	number("count", int64(b.Count))
	pair("note", b.Note)
	e := &b.Evidence
	pair("reason", e.Reason)
	pair("host", e.Host)
	pair("path", e.Path)
	pair("user_agent", e.UserAgent)
	number("status", int64(e.Status))
	number("hits", e.Hits)
	pair("at", formatTime(e.At))
	pair("client", e.Client)
	return string(out)
}

// ParseBan reads the text form of a ban and checks the ban.
func ParseBan(line string) (Ban, error) {
	var b Ban
	var err error
	b.Key, err = parsePairs(line, func(word, value string) error { return b.set(word, value) })
	if err != nil {
		return Ban{}, fmt.Errorf("ban %q: %w", b.Key, err)
	}
	return b, b.Check()
}

func (b *Ban) set(word, value string) (err error) {
	e := &b.Evidence
	var n int64
	switch word {
	case "bits", "count", "status", "hits":
		if n, err = strconv.ParseInt(value, 10, 64); err != nil {
			return fmt.Errorf("must be a whole number, got %q", value)
		}
	}
	switch word {
	case "scope":
		b.Scope, err = ParseScope(value)
	case "origin":
		b.Origin = value
	case "until":
		b.Until, err = parseTime(value)
	case "since":
		b.Since, err = parseTime(value)
	case "forget":
		b.Forget, err = parseTime(value)
	case "zone":
		b.Zone = value
	case "bits":
		b.Bits = int(n)
	case "parent":
		b.Parent = value
	case "count":
		b.Count = int(n)
	case "note":
		b.Note = value
	case "reason":
		e.Reason = value
	case "host":
		e.Host = value
	case "path":
		e.Path = value
	case "user_agent":
		e.UserAgent = value
	case "status":
		e.Status = int(n)
	case "hits":
		e.Hits = n
	case "at":
		e.At, err = parseTime(value)
	case "client":
		e.Client = value
	default:
		err = errors.New("is no word of a ban")
	}
	return err
}
