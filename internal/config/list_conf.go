package config

import (
	"cmp"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	lists "github.com/weirhq/caddy-weir/blocklist/source"
)

// SharedBlock is the shared block list: rules and bans that are made while servers run, and lists
// that others keep. All block handlers apply it unless they say otherwise.
//
// Rules and bans lie in Redis, if the app has one, where all instances find them; else in a file
// in Caddy's data directory.
type SharedBlock struct {
	// Mode is the strictest that the shared list, and with it the handlers that apply it,
	// are in: `enforce`, `dry_run` or `off`. The mode that is set at run time counts if it is less
	// strict. Default: `enforce`.
	Mode string `json:"mode,omitempty"`
	// Allow are addresses and CIDR ranges of clients that no block handler which applies the
	// shared list refuses.
	Allow []string `json:"allow,omitempty"`
	// Protect are addresses and CIDR ranges, such as those of administrators, that
	// neither shared rules nor bans concern, whoever makes them; loopback, this machine's own addresses and
	// trusted proxies always are protected. What the configuration of a handler says still concerns them.
	Protect []string `json:"protect,omitempty"`
	// Files are lists on disk, looked at each second.
	Files []ListFile `json:"files,omitempty"`
	// URLs are lists on the web, downloaded again and again.
	URLs []ListURL `json:"urls,omitempty"`
	// IPSources are lists that other modules know.
	IPSources []ListModule `json:"ip_sources,omitempty"`
}

// ListFile is a list on disk.
type ListFile struct {
	// Path of the file. Placeholders are replaced.
	Path string `json:"path"`

	ListOptions
}

// ListURL is a list on the web.
type ListURL struct {
	// URL of the list, http or https. Placeholders are replaced.
	URL string `json:"url"`
	// Refresh is how often the list is downloaded, up to a tenth later, at least 5m, 1h from
	// spamhaus.org, 5h from abuseipdb.com. Default: 24h.
	Refresh caddy.Duration `json:"refresh,omitempty"`
	// Timeout is how long one download may take. Default: 1m.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// Header is sent along, for keys. Placeholders in values are replaced.
	Header map[string][]string `json:"header,omitempty"`

	ListOptions
}

// ListOptions are what files and lists on the web have in common.
type ListOptions struct {
	// Name of the list, in {http.block.rule}, logs and metrics. Default: the file's name, or
	// the address without anything secret.
	Name string `json:"name,omitempty"`
	// Format of the list: `auto`, `plain`, `drop`, `ipset`, `nginx`, `crowdsec`,
	// `crowdsec_csv`, `ranges`, `tor`, `agents` or `robots`. Default: `auto`.
	Format string `json:"format,omitempty"`
	// Action is what becomes of a request that the list matches, as in rules. Default: a refusal
	// with the handler's status.
	Action blocklist.Action `json:"action,omitempty"`
	// DryRun makes the list report and let pass.
	DryRun bool `json:"dry_run,omitempty"`
	// Expires is how old the list may become and still count, since it was last known to be up to
	// date. Default: any age.
	Expires caddy.Duration `json:"expires,omitempty"`
	// MaxEntries is the most entries of the list, of which one more refuses the whole list.
	// Default: 1,000,000.
	MaxEntries int `json:"max_entries,omitempty"`
	// AcceptShrunken takes a list that is empty, or has shrunk to less than half. Default: the one
	// before is kept.
	AcceptShrunken bool `json:"accept_shrunken,omitempty"`
	// MaxCover is the most that the list covers, after what is cut out of it, as much as so many networks of /8, and
	// of IPv6 as so many of /19, 1 to 256, which is no bound. Default: 16; a list that covers more is refused.
	MaxCover int `json:"max_cover,omitempty"`
	// AcceptGrown takes a list that covers more than one such network, and more than twice as much as before.
	// Default: the one before is kept.
	AcceptGrown bool `json:"accept_grown,omitempty"`
	// Broad takes ranges wider than /8, or in IPv6 than /19. All addresses there are is refused
	// even so. Default: such a range is rejected.
	Broad bool `json:"broad,omitempty"`
	// IPv6Prefix takes a single IPv6 address of the list for its whole network of so many bits, 32 to
	// 128: whoever has one has the others. Default: 128, the address alone.
	IPv6Prefix int `json:"ipv6_prefix,omitempty"`
	// KeepPrivate lets the list name private addresses. Default: they are cut out.
	KeepPrivate bool `json:"keep_private,omitempty"`
}

func (b *SharedBlock) check(r report) {
	r.in("mode").problem((&Block{Mode: b.Mode}).checkMode())
	_, err := blocklist.ParsePrefixes(b.Allow)
	r.in("allow").problem(err)
	_, err = blocklist.ParsePrefixes(b.Protect)
	r.in("protect").problem(err)
	names := make(map[string]bool)
	once := func(r report, name string) {
		if names[name] {
			r.problemf("there are two lists of this name: give one another name")
		}
		names[name] = true
	}
	for i := range b.Files {
		f := &b.Files[i]
		at := r.in("file %q", f.Path)
		if f.Path == "" {
			at.problemf("must have a path")
		}
		f.ListOptions.check(at)
		once(at, f.name(filepath.Base(f.Path)))
	}
	for i := range b.IPSources {
		m := &b.IPSources[i]
		at := r.in("ip_source %q", m.Name)
		m.check(at)
		once(at, m.Name)
	}
	for i := range b.URLs {
		u := &b.URLs[i]
		at := r.in("url %d", i+1) // the address may hold a secret
		if u.Refresh < 0 {
			at.in("refresh").problemf("must be positive, got %s", time.Duration(u.Refresh))
		}
		u.ListOptions.check(at)
		if built, err := u.build(nil, "", func(lists.Status) {}); err != nil {
			at.problem(err)
		} else {
			once(at, built.Name())
		}
		for _, values := range u.Header {
			for _, value := range values {
				adviseSecret(at.in("header"), value)
			}
		}
	}
}

func (o *ListOptions) check(r report) {
	_, err := o.format()
	r.in("format").problem(err)
	if o.Expires < 0 {
		r.in("expires").problemf("must be positive, got %s", time.Duration(o.Expires))
	}
	if o.MaxEntries < 0 {
		r.in("max_entries").problemf("must be positive, got %d", o.MaxEntries)
	}
	r.in("max_cover").between(o.MaxCover, 1, lists.AnyCover)
	r.in("ipv6_prefix").between(o.IPv6Prefix, 32, 128)
	_, err = blocklist.NewListPart(blocklist.Entries{Rule: o.rule("x")})
	r.problem(err)
	if o.Name != "" {
		checkName(r, o.Name)
	}
}

// ListFormats are the words for the format of a list.
var ListFormats = lists.Formats()

func (o *ListOptions) format() (lists.Format, error) {
	if o.Format == "" {
		return lists.Auto, nil
	}
	return lists.ParseFormat(o.Format)
}

// name returns what the list is called, usually as here.
func (o *ListOptions) name(usual string) string { return cmp.Or(o.Name, usual) }

// rule returns what becomes of what a list of that name matches.
func (o *ListOptions) rule(name string) blocklist.Rule {
	rule := blocklist.Rule{Name: name, Action: o.Action}
	if o.DryRun {
		rule.Mode = blocklist.DryRun
	}
	return rule
}

func (o *ListOptions) options(name string, protected func() []netip.Prefix, report func(lists.Status)) lists.Options {
	format, _ := o.format() // checked
	return lists.Options{
		Name: name, Format: format,
		Limits:      lists.Limits{MaxEntries: o.MaxEntries, Broad: o.Broad, IPv6Prefix: o.IPv6Prefix},
		KeepPrivate: o.KeepPrivate, Protected: protected, AcceptShrunken: o.AcceptShrunken,
		MaxCover: o.MaxCover, AcceptGrown: o.AcceptGrown, Report: report,
	}
}

func (f *ListFile) build(protected func() []netip.Prefix, report func(lists.Status)) lists.Source {
	return lists.File(f.Path, f.options(f.name(filepath.Base(f.Path)), protected, report))
}

func (u *ListURL) build(protected func() []netip.Prefix, dir string, report func(lists.Status)) (lists.Source, error) {
	header := make(http.Header)
	for name, values := range u.Header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	how := lists.Download{Refresh: time.Duration(u.Refresh), Timeout: time.Duration(u.Timeout), Header: header, Dir: dir}
	return lists.URL(u.URL, how, u.options(u.Name, protected, report))
}

// resolved returns the block with every placeholder replaced.
func (b *SharedBlock) resolved(r report) *SharedBlock {
	if b == nil {
		return new(SharedBlock)
	}
	c := *b
	c.Files, c.URLs, c.IPSources = slices.Clone(b.Files), slices.Clone(b.URLs), slices.Clone(b.IPSources)
	for i := range c.Files {
		c.Files[i].Path = replace(r.in("file %q", c.Files[i].Path), c.Files[i].Path)
	}
	for i := range c.URLs {
		u, at := &c.URLs[i], r.in("url %d", i+1)
		u.URL = replace(at, u.URL)
		header := make(map[string][]string, len(u.Header))
		for name, values := range u.Header {
			for _, value := range values {
				header[name] = append(header[name], replace(at.in("header %q", name), value))
			}
		}
		u.Header = header
	}
	return &c
}
