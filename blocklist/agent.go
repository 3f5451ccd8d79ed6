package blocklist

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of the names that the field agent takes.
const (
	// MaxAgent is the longest name, in bytes.
	MaxAgent = 256
	// MaxAgents is the most names in all rules of a set together.
	MaxAgents = 250_000
	// MaxAgentBytes is the most bytes of all those names: each may become a state of 17
	// bytes.
	MaxAgentBytes = 8 << 20
)

// agentIndex finds rules by the names in a user agent, all of them in one pass over the
// text: the automaton of Aho and Corasick (Efficient string matching, CACM 18/6, 1975),
// narrowed to names that begin and end at the edge of a word. So most of a text is passed
// over: only where a word begins can a name begin, and few of those lead further than a
// byte or two.
//
// States are numbered breadth first from the root, which is 0, so that the children of a
// state are neighbours. A text costs time linear in its length, whatever the names.
type agentIndex struct {
	slot  int
	names map[string]int32 // to the index's groups, until it is built

	// first holds each state's first child; the last is that of the state after it,
	// less one. label is the byte that leads to a state.
	first []int32
	label []byte
	// start is the root's children by their label; 0 where there is none.
	start [256]int32
	// fail is the state of the longest end of a state's text at which another name
	// may begin, or the root.
	fail []int32
	// group is that of the name which ends in a state, or -1. hit is the state
	// itself then, else that of the longest name which ends there too; 0 if none does.
	group, hit []int32
}

// add notes that a rule asks for these names.
func (ai *agentIndex) add(ix *index, id int32, names []string) {
	if ai.names == nil {
		ai.names = make(map[string]int32)
	}
	for _, name := range names {
		join(ix, ai.names, name, id)
	}
}

// build makes the automaton.
func (ai *agentIndex) build() {
	if len(ai.names) == 0 {
		return
	}
	names := make([]string, 0, len(ai.names))
	for name := range ai.names {
		names = append(names, name)
	}
	slices.Sort(names)
	ai.grow(names)
	ai.names = nil
	ai.link()
}

// grow makes the states: each stands for the names that begin alike, which are
// neighbours in the sorted list.
func (ai *agentIndex) grow(names []string) {
	type span struct{ from, to, depth int32 }
	queue := []span{{0, int32(len(names)), 0}}
	ai.label = []byte{0}
	for state := 0; state < len(queue); state++ {
		s := queue[state]
		group := int32(-1)
		if name := names[s.from]; len(name) == int(s.depth) {
			group = ai.names[name]
			s.from++
		}
		ai.group = append(ai.group, group)
		ai.first = append(ai.first, int32(len(queue)))
		for s.from < s.to {
			c, end := names[s.from][s.depth], s.from+1
			for end < s.to && names[end][s.depth] == c {
				end++
			}
			if state == 0 {
				ai.start[c] = int32(len(queue))
			}
			ai.label = append(ai.label, c)
			queue = append(queue, span{s.from, end, s.depth + 1})
			s.from = end
		}
	}
	ai.first = append(ai.first, int32(len(queue)))
}

// link finds where each state falls back to. A state's parent and all shorter ends of its
// text have lower numbers.
func (ai *agentIndex) link() {
	ai.fail = make([]int32, len(ai.label))
	ai.hit = make([]int32, len(ai.label))
	for parent := range ai.label {
		for state := ai.first[parent]; state < ai.first[parent+1]; state++ {
			if parent != 0 {
				ai.fail[state] = ai.next(ai.fail[parent], ai.label[parent], ai.label[state])
			}
			ai.hit[state] = state
			if ai.group[state] < 0 {
				ai.hit[state] = ai.hit[ai.fail[state]]
			}
		}
	}
}

// next returns the state after a byte, which follows another in the text.
func (ai *agentIndex) next(state int32, before, c byte) int32 {
	for state != 0 {
		from, to := ai.first[state], ai.first[state+1]
		if at := bytes.IndexByte(ai.label[from:to], c); at >= 0 {
			return from + int32(at)
		}
		state = ai.fail[state]
	}
	if inWord[before] && inWord[c] {
		return 0
	}
	return ai.start[c]
}

// find notes the groups of all names in the text, which is in lower case.
func (ai *agentIndex) find(text []byte, sc *scratch) {
	var state int32
	before := byte(' ')
	for i, c := range text {
		if state == 0 && inWord[before] && inWord[c] {
			before = c // within a word, where no name begins
			continue
		}
		state = ai.next(state, before, c)
		before = c
		hit := ai.hit[state]
		if hit == 0 || i+1 < len(text) && inWord[c] && inWord[text[i+1]] {
			continue
		}
		// Where the longest name was seen before, so were those that end with it.
		for hit != 0 && sc.groups.add(ai.group[hit]) {
			hit = ai.hit[ai.fail[hit]]
		}
	}
}

// inWord tells the bytes of words: letters, digits and the underscore, and all bytes of
// letters beyond ASCII.
var inWord = func() (in [256]bool) {
	for c := range in {
		in[c] = isAlphanumeric(byte(c)) || c == '_' || c >= 0x80
	}
	return in
}()

// parseAgents brings the names of the field agent to lower case and checks them.
func parseAgents(f *Field) ([]string, error) {
	var names []string
	var problems []error
	for _, name := range f.Patterns {
		if err := checkAgent(name); err != nil {
			problems = append(problems, fmt.Errorf("%s: %q %w", f.label(), name, err))
			continue
		}
		text := []byte(name)
		lower(text)
		names = append(names, string(text))
	}
	return names, errors.Join(problems...)
}

// checkAgent refuses what is no name.
func checkAgent(name string) error {
	switch {
	case len(name) > MaxAgent:
		return fmt.Errorf("must be at most %d bytes, got %d", MaxAgent, len(name))
	case strings.Contains(name, "*"):
		return errors.New("is a name, not a pattern: use user_agent")
	case strings.TrimSpace(name) != name:
		return errors.New("must not begin or end with a blank")
	case !strings.ContainsFunc(name, func(c rune) bool { return c >= 0x80 || inWord[c] }):
		return errors.New("must have a letter or a digit")
	}
	return nil
}
