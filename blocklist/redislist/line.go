package redislist

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// A list is known by its line, which is what [blocklist.Content.Born] says of lists on Redis: its own name,
// made at random with its first change, and then the names of those that were given back to it when
// the server had lost them, each with the version up to which that was done, the latest first.
//
//	G5XWI3DPNYQHA4TF,ONUW2ZLPNZSSA5DI@17,MVZGKIDJOMQHE6DF@4
//
// So every node can tell whether the server has the list that it knows. The version alone tells nothing: a new
// list soon comes as far as the old one was.

// maxLine is how many names of a line are remembered.
const maxLine = 16

// newLine returns the line of a list that begins.
func newLine() string { return rand.Text()[:16] }

// cutLine returns the name of a list, and those of lists that were given back to it.
func cutLine(line string) (name, given string) {
	name, given, _ = strings.Cut(line, ",")
	return name, given
}

// isIn reports whether all of a list at one version, known by its line, is in the list of another line. A
// list that lacks what was given back to it is not what it was: so is a replica that became the master while that was done.
func isIn(other, line string, version uint64) bool {
	name, given := cutLine(line)
	if own, _ := cutLine(other); own != name {
		return gave(other, name, version)
	}
	last, _ := cutLine(given)
	if last == "" {
		return true
	}
	name, at := cutVersion(last)
	return gave(other, name, at)
}

// gave reports whether a list was given back to that of a line, up to a version at least.
func gave(line, name string, version uint64) bool {
	_, given := cutLine(line)
	for entry := range strings.SplitSeq(given, ",") {
		if of, at := cutVersion(entry); of == name {
			return version <= at
		}
	}
	return false
}

func cutVersion(entry string) (name string, version uint64) {
	name, text, _ := strings.Cut(entry, "@")
	version, _ = strconv.ParseUint(text, 10, 64) // 0 is given to nobody
	return name, version
}

// withGiven returns the line of a list to which another was given back, which had a line and a version.
func withGiven(line, other string, version uint64) string {
	own, given := cutLine(line)
	name, before := cutLine(other)
	entries := strings.Split(fmt.Sprintf("%s@%d,%s,%s", name, version, before, given), ",")
	upTo := make(map[string]uint64)
	for _, entry := range entries {
		of, at := cutVersion(entry)
		upTo[of] = max(upTo[of], at)
	}
	delete(upTo, own)
	delete(upTo, "") // of a list without a name nothing can be said
	out := []string{own}
	for _, entry := range entries {
		of, _ := cutVersion(entry)
		if at := upTo[of]; at > 0 && len(out) < maxLine {
			out = append(out, fmt.Sprintf("%s@%d", of, at))
			delete(upTo, of)
		}
	}
	return strings.Join(out, ",")
}
