package blocklist

import (
	"errors"
	"fmt"
	"time"
)

// Undoing completes a change that takes back the one of a record. current returns the text
// form of what the list holds now, of the word and ID of an [Op]; empty for nothing. A rule or a
// ban that was changed again since refuses it: then nothing says what is wanted. What ended
// meanwhile by itself is left as it is.
func (rec *Record) Undoing(c Change, current func(word, id string) string, now time.Time) (Change, error) {
	var problems []error
	ended := make(map[string]bool) // by word and ID
	for _, op := range rec.Change.Ops() {
		is := current(op.Word, op.ID)
		switch {
		case is == op.Text:
		case is == "" && !op.Forgotten.IsZero() && !now.Before(op.Forgotten):
			ended[op.Word+op.ID] = true
		case op.Word == "mode":
			problems = append(problems, errors.New("mode: was changed again since"))
		default:
			problems = append(problems, fmt.Errorf("%s %q: was changed again since", op.Word, op.ID))
		}
	}
	u := &rec.Undo
	c.Mode = u.Mode
	for _, r := range u.Put {
		if !r.Expired(now) {
			c.Put = append(c.Put, r)
		} else if current("rule", r.Name) != "" {
			c.Remove = append(c.Remove, r.Name)
		}
	}
	for _, name := range u.Remove {
		if !ended["rule"+name] {
			c.Remove = append(c.Remove, name)
		}
	}
	for _, b := range u.Ban {
		if !b.Over(now) {
			c.Ban = append(c.Ban, b)
		} else if current("ban", b.ID().String()) != "" {
			c.Lift = append(c.Lift, b.ID())
		}
	}
	for _, id := range u.Lift {
		if !ended["ban"+id.String()] {
			c.Lift = append(c.Lift, id)
		}
	}
	if c.size() == 0 && c.Mode == nil {
		problems = append(problems, errors.New("nothing of it is left"))
	}
	if len(problems) > 0 {
		return Change{}, Refuse(fmt.Errorf("undo %d: %w", rec.Version, errors.Join(problems...)))
	}
	return c, nil
}

// Text returns the text form of what the content holds, by the word and ID of an [Op]; empty
// for nothing.
func (c Content) Text(word, id string) string {
	switch word {
	case "mode":
		return c.Mode.String()
	case "rule":
		for _, r := range c.Rules {
			if r.Name == id {
				return r.String()
			}
		}
	case "ban":
		if parsed, err := ParseBanID(id); err == nil {
			if b := c.Bans.Get(parsed); b != nil {
				return b.String()
			}
		}
	}
	return ""
}
