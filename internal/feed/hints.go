package feed

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// HeadSize is how much of a feed is looked at for what it says of itself, in bytes.
	HeadSize = 64 << 10
	// shortestInterval and longestInterval bound what a feed may say of its interval.
	shortestInterval = time.Minute
	longestInterval  = 24 * time.Hour
	// bareSpan is how often a feed without validators is looked at.
	bareSpan = time.Hour
)

// Hints are what a feed says of itself before its first entry.
type Hints struct {
	// Interval is how long the feed is likely to stay as it is: ttl (RSS 2.0), else
	// updatePeriod and updateFrequency (RSS 1.0's syndication module), within a minute
	// and a day. 0 if it does not say.
	Interval time.Duration
	// Hours and Days are when nobody should ask: a bit for each hour of the day in UTC,
	// and one for each day of the week from Sunday (RSS 2.0's skipHours and skipDays).
	Hours uint32
	Days  uint8
}

// allHours and allDays would keep everybody out for ever, which nobody means.
const (
	allHours = 1<<24 - 1
	allDays  = 1<<7 - 1
)

// QuietUntil returns the end of the quiet hours that now lies in; zero if it lies in none.
func (h *Hints) QuietUntil(now time.Time) time.Time {
	if !h.quiet(now) {
		return time.Time{}
	}
	end := now.UTC().Truncate(time.Hour)
	for range 7 * 24 {
		if end = end.Add(time.Hour); !h.quiet(end) {
			return end
		}
	}
	return time.Time{}
}

func (h *Hints) quiet(t time.Time) bool {
	if h.Hours == 0 && h.Days == 0 {
		return false
	}
	t = t.UTC()
	return h.Hours>>t.Hour()&1 == 1 || h.Days>>t.Weekday()&1 == 1
}

// ReadHints reads what a feed says of itself in the beginning of its text, which may end
// anywhere and need not be well-formed. A JSON Feed has nothing to say.
func ReadHints(text []byte) Hints {
	var h Hints
	var period string
	frequency := 1
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
	if !bytes.HasPrefix(text, []byte("<")) {
		return h
	}
	d := xml.NewDecoder(bytes.NewReader(ascii(text)))
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	var name string
	for {
		token, err := d.RawToken()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case xml.StartElement:
			name = t.Name.Local
			if name == "item" || name == "entry" {
				return h.with(period, frequency)
			}
		case xml.EndElement:
			name = ""
		case xml.CharData:
			word := strings.TrimSpace(string(t))
			switch name {
			case "ttl":
				h.Interval = minutes(word)
			case "updatePeriod":
				period = word
			case "updateFrequency":
				if n, err := strconv.Atoi(word); err == nil && n > 0 {
					frequency = n
				}
			case "hour":
				if n, err := strconv.Atoi(word); err == nil && 0 <= n && n <= 24 {
					h.Hours |= 1 << (n % 24)
				}
			case "day":
				h.Days |= dayBit(word)
			}
		}
	}
	return h.with(period, frequency)
}

// ascii returns a text with a question mark for each byte beyond ASCII: all that counts is
// ASCII in every charset that feeds come in, and the parser stops at what is no UTF-8.
func ascii(text []byte) []byte {
	plain := bytes.Clone(text)
	for i, c := range plain {
		if c >= 0x80 {
			plain[i] = '?'
		}
	}
	return plain
}

// with adds the interval of the syndication module, and takes out what makes no sense.
func (h Hints) with(period string, frequency int) Hints {
	if h.Interval == 0 {
		if span, known := periods[strings.ToLower(period)]; known {
			h.Interval = min(max(span/time.Duration(frequency), shortestInterval), longestInterval)
		}
	}
	if h.Hours == allHours {
		h.Hours = 0
	}
	if h.Days == allDays {
		h.Days = 0
	}
	return h
}

var periods = map[string]time.Duration{
	"hourly": time.Hour, "daily": 24 * time.Hour, "weekly": 7 * 24 * time.Hour,
	"monthly": 30 * 24 * time.Hour, "yearly": 365 * 24 * time.Hour,
}

// minutes reads an interval; 0 if the text is no number of minutes.
func minutes(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return time.Duration(min(n, int64(longestInterval/time.Minute))) * time.Minute
}

func dayBit(name string) uint8 {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(name, day.String()) {
			return 1 << day
		}
	}
	return 0
}

// Wants reports whether the beginning of the body of an answer with status 200 is worth to be
// looked at: it is readable, and that version was not yet.
func (b *Book) Wants(v *Visit, h http.Header, now time.Time) bool {
	if v.head || v.other || !readable(h.Get("Content-Encoding")) {
		return false
	}
	opaque, _ := opaqueOf(h.Get("Etag"))
	modified, _ := dateOf(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch f := b.feeds.get(v.feed); {
	case f == nil:
		return true
	case f.empty():
		return now.Sub(f.readAt) >= bareSpan
	default:
		return f.hinted != f.current() || !f.versions[0].shown(tag{opaque: opaque}, modified)
	}
}

func readable(coding string) bool { return coding == "" || coding == "identity" || coding == "gzip" }

// hints reads what the beginning of the answer's body says; ok is false if it was not looked
// at.
func (a *Answer) hints() (h Hints, ok bool) {
	if a.Head == nil {
		return h, false
	}
	text := a.Head
	if a.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return h, true
		}
		// The end may be missing: what there is before it counts.
		text, _ = io.ReadAll(io.LimitReader(unpacked, HeadSize))
	}
	return ReadHints(text), true
}
