// Package admin is the control plane of the shared block list: what it can be asked and told
// while servers run. A [Desk] does the work on a [Board], which is where the list is
// kept. The board of a running Caddy stands behind the routes under /weir/block/ of Caddy's admin
// endpoint, see [API], and is asked from afar by a [Client]; the board of a tool that has
// no Caddy to ask is [Direct].
//
// Server and client speak in the types of this file, as JSON. Errors are {"error": "…"} with
// the status 400 for what is wrong with a request, 409 for what is dangerous and was not
// insisted on, and 503 while the list cannot be reached, or no configuration runs.
package admin

import (
	"time"

	"github.com/weirhq/caddy-weir/internal/config"
)

// An Order is part of everything that changes the list.
type Order struct {
	// By is who changes it. Default: the admin endpoint's peer.
	By string `json:"by,omitempty"`
	// Why is for people, in the trail of changes.
	Why string `json:"why,omitempty"`
	// Force insists on what is dangerous.
	Force bool `json:"force,omitempty"`
	// Caller is the address from which whoever changes the list comes, so that he does not
	// lock himself out. Default: the admin endpoint's peer, unless that is local.
	Caller string `json:"caller,omitempty"`
}

// Add puts rules, or replaces those of the same names.
type Add struct {
	Order
	// Rules as objects, in the form of rules of the handler block.
	Rules []config.Rule `json:"rules,omitempty"`
	// Lines are rules in their text form. Empty ones and those that begin with # are passed over.
	Lines []string `json:"lines,omitempty"`
	// Expires is the end of those rules that say nothing of it: a duration, a time
	// as in RFC 3339, or never. Default: 24h.
	Expires string `json:"expires,omitempty"`
	// MaxShare refuses rules that would have hit a larger share of the recent requests,
	// from 0 to 1; 0 does not look.
	MaxShare float64 `json:"max_share,omitempty"`
}

// Remove takes out rules.
type Remove struct {
	Order
	// Names of the rules. One that there is not refuses it all.
	Names []string `json:"names"`
}

// SetMode sets the mode of the list, or of some of its rules.
type SetMode struct {
	Order
	// Mode is enforce, dry_run or off.
	Mode string `json:"mode"`
	// Names of rules; none for the whole list.
	Names []string `json:"names,omitempty"`
}

// Undo takes back what one change did.
type Undo struct {
	Order
	// Version to which the change led.
	Version uint64 `json:"version"`
}

// Import makes a change that is written down, such as an [Export].
type Import struct {
	Order
	// Text has a line for each thing to do: rule, remove, mode, ban or lift.
	Text string `json:"text"`
	// Replace also takes out every rule that the text does not put. Bans stay.
	Replace bool `json:"replace,omitempty"`
}

// BanKey keeps a client out for a while.
type BanKey struct {
	Order
	// Client is an address or a network; or Key is what a zone counts by, in clear. An IPv6 address
	// alone stands for its network as long as ip_prefix says, 64 by default; from a zone a client is banned
	// by the network that the zone counts by.
	Client string `json:"client,omitempty"`
	Key    string `json:"key,omitempty"`
	// Scope is all, site:NAME or zone:NAME. Default: all.
	Scope string `json:"scope,omitempty"`
	// Until is the end: a duration, a time as in RFC 3339, or never. Default: 24h.
	Until string `json:"until,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
}

// Lift ends bans: those of a client or a key, whoever made them, or one by its ID. There
// has to be one.
type Lift struct {
	Order
	// Client is an address or a network; or Key is what a zone counts by, in clear; or ID is a
	// ban's own.
	Client string `json:"client,omitempty"`
	Key    string `json:"key,omitempty"`
	ID     string `json:"id,omitempty"`
	// Scope is all, site:NAME or zone:NAME. Default: every one.
	Scope string `json:"scope,omitempty"`
}

// Done is what became of a change.
type Done struct {
	// Version to which the change led; undoing it takes this number.
	Version uint64 `json:"version"`
	// Put and Replaced are the names of rules that are new, and of those that took another's
	// place. Removed are those taken out.
	Put      []string `json:"put,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	// Ends is when the first of the rules and bans that were put ends.
	Ends *time.Time `json:"ends,omitempty"`
	// Banned and Lifted count bans.
	Banned int `json:"banned,omitempty"`
	Lifted int `json:"lifted,omitempty"`
	// Rebanned is how many of the banned took the place of a ban by the same maker that was in force.
	Rebanned int `json:"rebanned,omitempty"`
	// Whom is the network, or the key, that was banned: a network may be wider than what was asked for.
	Whom string `json:"whom,omitempty"`
	// Mode is the list's new mode, and RuleMode that of the rules that were named.
	Mode     string `json:"mode,omitempty"`
	RuleMode string `json:"rule_mode,omitempty"`
	// Insisted tells what was dangerous and was done all the same.
	Insisted []Danger `json:"insisted,omitempty"`
	// Warnings say why what was done may not do what was meant.
	Warnings []string `json:"warnings,omitempty"`
}

// Danger is a rule, or a ban by its key, that could lock somebody out.
type Danger struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// Narrow selects what a [List] shows.
type Narrow struct {
	// Client is an address: only its bans, and the rules that name it.
	Client string
	// Bans is the most bans to show; the latest come first. 0 shows none.
	Bans int
}

// List is the shared list as it is.
type List struct {
	// Version counts the changes so far.
	Version uint64 `json:"version"`
	// Mode is enforce, dry_run or off.
	Mode string `json:"mode"`
	// Keeper is where the list is kept: Redis, or a file.
	Keeper string `json:"keeper"`
	// Age is for how many seconds nothing was heard of the keeper.
	Age float64 `json:"age"`
	// Trouble says what keeps it from being heard.
	Trouble string `json:"trouble,omitempty"`
	// CopyTrouble says what is wrong with the copy on this server's disk, from which the list is taken
	// at a start while its keeper is away.
	CopyTrouble string `json:"copy_trouble,omitempty"`
	// Rules in the order in which they were created.
	Rules []Rule `json:"rules"`
	// Bans, as many as were asked for, and BansTotal all there are.
	Bans      []Ban `json:"bans,omitempty"`
	BansTotal int   `json:"bans_total"`
	// Sources of entries that are not in the list itself: files and URLs.
	Sources []Source `json:"sources,omitempty"`
}

// Rule is a rule of the list.
type Rule struct {
	config.Rule
	// Text is the rule's text form.
	Text string `json:"text"`
}

// Ban is a ban of the list.
type Ban struct {
	// ID is what [Lift] takes.
	ID string `json:"id"`
	// Key is what the client is called: a keyed hash unless keys are kept in clear.
	Key string `json:"key"`
	// Client is the network that an operator banned; of a zone's ban the address, if the site logs keys.
	Client string `json:"client,omitempty"`
	// Scope is all, site:NAME or zone:NAME.
	Scope string `json:"scope"`
	// Origin is who made the ban: a zone, or an operator.
	Origin string    `json:"origin"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	// Count is how many times the key was banned by this origin, 0 for an operator.
	Count int    `json:"count,omitempty"`
	Note  string `json:"note,omitempty"`
	// Reason is what it was made for, with the last request and how many there were.
	Reason    string `json:"reason,omitempty"`
	Host      string `json:"host,omitempty"`
	Path      string `json:"path,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	Status    int    `json:"status,omitempty"`
	Hits      int64  `json:"hits,omitempty"`
}

// Record is a change that was made.
type Record struct {
	Version uint64    `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Why     string    `json:"why,omitempty"`
	// Undid is the version whose change this one took back.
	Undid uint64 `json:"undid,omitempty"`
	// Did is what the change did, and Undo what takes it back, in text form.
	Did  []string `json:"did"`
	Undo []string `json:"undo"`
}

// Source is a file or a URL that entries come from.
type Source struct {
	Name string `json:"name"`
	// Where it is: a path, or an address without what is secret in it.
	Where string `json:"where"`
	// Format in which it was read.
	Format string `json:"format,omitempty"`
	// Entries in force, Stripped because they are never blocked, and Rejected lines, of which
	// Lines are the first.
	Entries  int            `json:"entries"`
	Stripped int            `json:"stripped,omitempty"`
	Rejected int            `json:"rejected,omitempty"`
	Lines    []RejectedLine `json:"rejected_lines,omitempty"`
	// FromCopy says that it is the copy of an earlier download.
	FromCopy bool `json:"from_copy,omitempty"`
	// Loaded is when it was last known to be up to date, and Next when it is asked again.
	Loaded *time.Time `json:"loaded,omitempty"`
	Next   *time.Time `json:"next,omitempty"`
	// Trouble is what was wrong with the last try.
	Trouble string `json:"trouble,omitempty"`
}

// RejectedLine is a line of a source that says nothing understandable.
type RejectedLine struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
	Why    string `json:"why"`
}
