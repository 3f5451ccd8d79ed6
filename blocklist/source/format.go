package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Format is the form in which a list is written.
type Format uint8

// The formats. Lists of names are Agents and Robots; all others are of addresses.
const (
	Auto        Format = iota // told by what is in the list, see [Detect]; never a list of Agents
	Plain                     // an address, CIDR range or range from-to a line; netset; Spamhaus DROP as text
	Drop                      // Spamhaus DROP: a JSON object with "cidr" a line
	IPSet                     // what `ipset save` prints
	Nginx                     // the directives deny and allow
	CrowdSec                  // decisions in JSON: a stream's answer, a list of decisions or of alerts
	CrowdSecCSV               // decisions in CSV, with a header line
	Ranges                    // JSON in which clouds, CDNs and crawlers publish their ranges
	Tor                       // Tor's list of exits: lines with ExitAddress
	Agents                    // the name of a crawler a line
	Robots                    // ai.robots.txt's robots.json: an object with a key for each crawler
)

var formats = [...]string{
	Auto: "auto", Plain: "plain", Drop: "drop", IPSet: "ipset", Nginx: "nginx", CrowdSec: "crowdsec", CrowdSecCSV: "crowdsec_csv",
	Ranges: "ranges", Tor: "tor", Agents: "agents", Robots: "robots",
}

// String returns the format's word.
func (f Format) String() string {
	if int(f) < len(formats) {
		return formats[f]
	}
	return fmt.Sprintf("unknown(%d)", uint8(f))
}

// Formats returns the words of all formats.
func Formats() []string { return slices.Clone(formats[:]) }

// ParseFormat reads a format's word.
func ParseFormat(word string) (Format, error) {
	for f, w := range formats {
		if w == word {
			return Format(f), nil
		}
	}
	last := len(formats) - 1
	return 0, fmt.Errorf("must be %s or %s, got %q", strings.Join(formats[:last], ", "), formats[last], word)
}

// MarshalText returns the format's word.
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the format's word; an empty one is Auto.
func (f *Format) UnmarshalText(text []byte) error {
	*f = Auto
	if len(text) == 0 {
		return nil
	}
	var err error
	*f, err = ParseFormat(string(text))
	return err
}

// headSize is how much of a list [Detect] should see: some lists open with pages of
// comments.
const headSize = 16 << 10

// Detect tells the format of a list by its first bytes; contentType and name (of a file,
// or the path of an address) help where those leave a doubt, and may be empty. It
// never answers Agents, since any text could be names, nor Auto: what is nothing else is
// Plain.
func Detect(head []byte, contentType, name string) Format {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(bom)), " \t\r\n")
	if len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		return detectJSON(head)
	}
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' || line[0] == ';' || bytes.HasPrefix(line, []byte("//")) {
			continue
		}
		return detectLine(string(line), contentType, name)
	}
	return Plain
}

// detectLine tells the format by the first line that is no comment.
func detectLine(line, contentType, name string) Format {
	word, _, _ := strings.Cut(line, " ")
	switch strings.ToLower(word) {
	case "create", "add", "-n", "-a", "--create", "--add", "-exist", "flush":
		return IPSet
	case "deny", "allow":
		return Nginx
	case "exitnode", "exitaddress":
		return Tor
	}
	columns := csvColumns(strings.Split(line, ","))
	if columns.value >= 0 && (strings.Contains(line, ",") || strings.Contains(contentType, "csv") || strings.HasSuffix(name, ".csv")) {
		return CrowdSecCSV
	}
	return Plain
}

// detectJSON tells the format by the keys that are in the head.
func detectJSON(head []byte) Format {
	has := func(key string) bool {
		_, after, found := bytes.Cut(head, []byte(`"`+key+`"`))
		after = bytes.TrimLeft(after, " \t\r\n")
		return found && len(after) > 0 && after[0] == ':'
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case has("new"), has("deleted"), has("decisions"), has("scenario"), has("value") && (has("duration") || has("scope")):
		return CrowdSec
	case head[0] == '{' && bytes.Contains(first, []byte(`"cidr"`)) && json.Valid(first):
		return Drop
	case has("operator") && (has("respect") || has("function")):
		return Robots
	}
	return Ranges
}
