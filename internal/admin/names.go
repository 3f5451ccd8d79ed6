package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// Bans name their keys by a keyed hash, which means nobody under another secret. So an export says
// under which secret it was written: by what that makes of a text that everybody knows.

const (
	// knownKey is that text. It is no key of a zone, which begin otherwise.
	knownKey = "weir: which secret is this?"
	// namedBy begins the line of an export that tells its name.
	namedBy = "# Bans name their keys as "
)

// named writes that line; nothing where the secret is not known, and so nobody is banned yet.
func (d Desk) named(ctx context.Context) string {
	name, err := d.Name(ctx, knownKey)
	if err != nil || strings.ContainsAny(name, "\r\n") {
		return ""
	}
	return namedBy + name + "\n"
}

// checkNames refuses a change whose bans were written down under another secret than that of this list.
// Texts that do not say under which are believed.
func (d Desk) checkNames(ctx context.Context, text string, c *blocklist.Change) error {
	_, there, found := strings.Cut("\n"+strings.TrimPrefix(text, "\ufeff"), "\n"+namedBy)
	if bans := len(c.Ban) + len(c.Lift); !found || bans == 0 {
		return nil
	}
	there, _, _ = strings.Cut(there, "\n")
	here, err := d.Name(ctx, knownKey)
	if err != nil {
		return err
	}
	if here == strings.TrimSpace(there) {
		return nil
	}
	return fmt.Errorf("%d of its lines are about bans that name their keys under another secret than this list's (hash_keys), and would match nobody: %w",
		len(c.Ban)+len(c.Lift), ErrDanger)
}
