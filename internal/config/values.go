package config

import (
	"encoding/json"
	"fmt"
)

// Parts of a key. In JSON a plain string stands for one part, and an empty one for none.
type Parts []string

// UnmarshalJSON reads a string or a list of strings.
func (p *Parts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = nil
		if one != "" {
			*p = Parts{one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(data, &many); err != nil {
		return fmt.Errorf("key: must be a string or a list of strings")
	}
	if len(many) == 1 && many[0] == "" {
		many = nil // as the string alone
	}
	*p = many
	return nil
}

// MarshalJSON writes one part as a plain string.
func (p Parts) MarshalJSON() ([]byte, error) {
	if len(p) == 1 {
		return json.Marshal(p[0])
	}
	return json.Marshal([]string(p))
}

// Cost is a whole number or a placeholder. In JSON a number may stand for itself.
type Cost string

// UnmarshalJSON reads a number or a string.
func (c *Cost) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = Cost(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("cost: must be a whole number or a placeholder")
	}
	*c = Cost(number.String())
	return nil
}
