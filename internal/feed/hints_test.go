package feed

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"
)

func TestHints(t *testing.T) {
	const sy = `xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"`
	tests := []struct {
		name, text string
		want       Hints
	}{
		{"ttl", `<rss><channel><ttl> 90 </ttl><item/></channel></rss>`, Hints{Interval: 90 * time.Minute}},
		{"ttl before the other", `<rss ` + sy + `><channel><sy:updatePeriod>daily</sy:updatePeriod><ttl>30</ttl>`, Hints{Interval: 30 * time.Minute}},
		{"period", `<rdf:RDF ` + sy + `><channel><sy:updatePeriod>Daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>`, Hints{Interval: 6 * time.Hour}},
		{"period alone, undeclared", `<feed><sy:updatePeriod>hourly</sy:updatePeriod><entry/></feed>`, Hints{Interval: time.Hour}},
		{"a year is a day", `<channel><sy:updatePeriod>yearly</sy:updatePeriod>`, Hints{Interval: 24 * time.Hour}},
		{"too often", `<channel><sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>999</sy:updateFrequency>`, Hints{Interval: time.Minute}},
		{"endless", `<channel><ttl>99999999999</ttl>`, Hints{Interval: 24 * time.Hour}},
		{"nonsense", `<channel><ttl>often</ttl><sy:updatePeriod>now</sy:updatePeriod><skipHours><hour>77</hour><hour>x</hour></skipHours><skipDays><day>Caturday</day></skipDays>`, Hints{}},
		{"in an entry", `<channel><item><ttl>5</ttl></item></channel>`, Hints{}},
		{
			"hours and days", `<channel><skipHours><hour>0</hour><hour>23</hour><hour>24</hour></skipHours><skipDays><day>Sunday</day><day>saturday</day></skipDays>`,
			Hints{Hours: 1 | 1<<23, Days: 1 | 1<<6},
		},
		{"cut off", `<channel><ttl>15</ttl><title>a &unknown; b</title><link`, Hints{Interval: 15 * time.Minute}},
		{"not well-formed", `<channel><br><ttl>15</ttl></b><ttl>`, Hints{Interval: 15 * time.Minute}},
		{"another charset", `<?xml version="1.0" encoding="windows-1252"?><channel><title>` + "\xe4" + `</title><ttl>15</ttl>`, Hints{Interval: 15 * time.Minute}},
		{"JSON", `{"version": "https://jsonfeed.org/version/1.1", "title": "<ttl>5</ttl"}`, Hints{}},
		{"empty", ``, Hints{}},
	}
	for _, tt := range tests {
		if got := ReadHints([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestHintsOfAll: a feed that rests at all hours, or on all days, means something else.
func TestHintsOfAll(t *testing.T) {
	var b strings.Builder
	b.WriteString("<channel><skipHours>")
	for i := range 24 {
		b.WriteString("<hour>" + at(time.Duration(i)*time.Hour).Format("15") + "</hour>")
	}
	b.WriteString("</skipHours><skipDays>")
	for i := range 7 {
		b.WriteString("<day>" + time.Weekday(i).String() + "</day>")
	}
	if got := ReadHints([]byte(b.String())); got != (Hints{}) {
		t.Errorf("%+v", got)
	}
}

// TestHintsPacked: the body goes by as the client gets it, and its end may be missing.
func TestHintsPacked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("<channel><ttl>45</ttl>" + strings.Repeat("<title>words</title>", 1000)))
	_ = z.Close()
	a := Answer{Header: header("Content-Encoding", "gzip"), Head: packed.Bytes()[:packed.Len()/2]}
	if got, ok := a.hints(); !ok || got.Interval != 45*time.Minute {
		t.Errorf("%+v %v", got, ok)
	}
	a.Head = []byte("no gzip at all")
	if got, ok := a.hints(); !ok || got != (Hints{}) {
		t.Errorf("%+v %v", got, ok)
	}
}

func TestQuietUntil(t *testing.T) {
	night := Hints{Hours: 1<<23 | 1<<0 | 1<<1}
	weekend := Hints{Days: 1 | 1<<6, Hours: 1} // Monday rests one hour more
	all := Hints{Hours: allHours}
	tests := []struct {
		hints     Hints
		now, want string
	}{
		{night, "2026-03-02T22:59:59Z", ""},
		{night, "2026-03-02T23:00:00Z", "2026-03-03T02:00:00Z"},
		{night, "2026-03-03T01:30:00Z", "2026-03-03T02:00:00Z"},
		{night, "2026-03-03T02:00:00Z", ""},
		{night, "2026-03-03T03:30:00+02:00", "2026-03-03T02:00:00Z"},
		{weekend, "2026-02-28T12:00:00Z", "2026-03-02T01:00:00Z"},
		{all, "2026-02-28T12:00:00Z", ""},
		{Hints{}, "2026-02-28T12:00:00Z", ""},
	}
	for _, tt := range tests {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if until := tt.hints.QuietUntil(now); !until.IsZero() {
			got = until.Format(time.RFC3339)
		}
		if got != tt.want {
			t.Errorf("%+v at %s: %q, want %q", tt.hints, tt.now, got, tt.want)
		}
	}
}

func FuzzHints(f *testing.F) {
	f.Add([]byte("<channel><ttl>5</ttl><skipHours><hour>1</hour>"))
	f.Add([]byte("<!DOCTYPE x [<!ENTITY a '&b;'>]><rss>&a;"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := ReadHints(text)
		if h.Interval != 0 && (h.Interval < shortestInterval || h.Interval > longestInterval) || h.Hours > allHours || h.Days > allDays {
			t.Errorf("%+v", h)
		}
	})
}
