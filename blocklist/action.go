package blocklist

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Action is what becomes of a request that a rule matches: it is refused, and the action
// is the status of the answer, from 400 to 599; or the action is one of those below. The
// zero value leaves the choice to the caller.
//
// In JSON a status is a number and the others are words; the text form of both is the same.
type Action int

// The actions that are no status.
const (
	// Abort closes the connection without an answer.
	Abort Action = -1 - iota
	// Tarpit answers so slowly that the client loses time.
	Tarpit
	// Mark lets the request pass and tells those behind that the rule matched.
	Mark
)

// actionWords are the words of the actions that are no status, in their order.
var actionWords = [...]string{"abort", "tarpit", "mark"}

// String returns the status or the word; "" if the caller is to choose.
func (a Action) String() string {
	switch word := -1 - int(a); {
	case a == 0:
		return ""
	case word >= 0 && word < len(actionWords):
		return actionWords[word]
	}
	return strconv.Itoa(int(a))
}

// ParseAction reads a status or a word.
func ParseAction(text string) (Action, error) {
	if i := slices.Index(actionWords[:], text); i >= 0 {
		return Action(-1 - i), nil
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return Action(n), Action(n).check()
	}
	return 0, badAction(strconv.Quote(text))
}

// check refuses what is neither a status of a refusal nor one of the words.
func (a Action) check() error {
	if a == 0 || a >= Mark && a <= Abort || a >= 400 && a <= 599 {
		return nil
	}
	return badAction(a.String())
}

func badAction(got string) error {
	return fmt.Errorf("must be a status from 400 to 599, abort, tarpit or mark, got %s", got)
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAction(string(text))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (a Action) MarshalJSON() ([]byte, error) {
	if a < 0 {
		return json.Marshal(a.String())
	}
	return strconv.AppendInt(nil, int64(a), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. A number that is no status of a refusal is
// kept, so that the rule's Check can tell of it by the rule's name; 0 and null leave the
// choice to the caller.
func (a *Action) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case nil:
		return nil
	case string:
		return a.UnmarshalText([]byte(value))
	case float64:
		if n := Action(value); n >= 0 && float64(n) == value {
			*a = n
			return nil
		}
	}
	return badAction(string(data))
}
