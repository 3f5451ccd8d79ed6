package feed

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"mime"
	"strings"
	"time"
)

// A Notice is a feed of one entry that tells people, in their reader, why the feed does not
// come.
type Notice struct {
	// Kind is the media type of the feed that it stands for; the notice is in the same format,
	// and in RSS if that is not known.
	Kind string
	// URL is the address of the feed.
	URL string
	// Wait is after what time the reader may come again.
	Wait time.Duration
	Now  time.Time
}

const noticeTitle = "Your feed reader asks too often"

// text says why, and what to do.
func (n *Notice) text() string {
	return "This feed was asked for so often, and without saying what was there already, that it is not sent for a while. " +
		"Nothing is lost: the next fetch after " + n.Now.Add(n.Wait).UTC().Format("2 January 2006, 15:04") + " UTC brings all entries. " +
		"It helps to fetch at most once an hour, to send back ETag and Last-Modified as If-None-Match and If-Modified-Since, " +
		"and to heed Retry-After. This entry comes at most once a day."
}

// id names the notice of a day, so that readers show it once.
func (n *Notice) id() string { return n.URL + "#weir-" + n.Now.UTC().Format(time.DateOnly) }

// Write returns the notice and its media type.
func (n *Notice) Write() (body []byte, kind string) {
	format, _, _ := mime.ParseMediaType(n.Kind)
	switch {
	case strings.Contains(format, "json"):
		return n.json(), "application/feed+json"
	case strings.Contains(format, "atom"):
		return n.xml(atomNotice), "application/atom+xml; charset=utf-8"
	}
	return n.xml(rssNotice), "application/rss+xml; charset=utf-8"
}

// The notices in XML; words in braces are replaced.
const (
	rssNotice = `<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>{title}</title><link>{url}</link><description>{title}</description>
<item><title>{title}</title><link>{url}</link><guid isPermaLink="false">{id}</guid><pubDate>{rfc822}</pubDate><description>{text}</description></item>
</channel></rss>
`
	atomNotice = `<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>{title}</title><id>{url}</id><updated>{rfc3339}</updated>
<entry><title>{title}</title><id>{id}</id><updated>{rfc3339}</updated><author><name>{url}</name></author><link href="{url}"/><content type="text">{text}</content></entry>
</feed>
`
)

func (n *Notice) xml(format string) []byte {
	return []byte(strings.NewReplacer(
		"{title}", noticeTitle,
		"{url}", escape(n.URL),
		"{id}", escape(n.id()),
		"{text}", escape(n.text()),
		"{rfc822}", n.Now.UTC().Format(time.RFC1123Z),
		"{rfc3339}", n.Now.UTC().Format(time.RFC3339),
	).Replace(format))
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}

func (n *Notice) json() []byte {
	type item struct {
		ID        string `json:"id"`
		URL       string `json:"url"`
		Title     string `json:"title"`
		Text      string `json:"content_text"`
		Published string `json:"date_published"`
	}
	text, _ := json.Marshal(struct { // texts alone always have a form
		Version string `json:"version"`
		Title   string `json:"title"`
		Items   []item `json:"items"`
	}{
		"https://jsonfeed.org/version/1.1", noticeTitle,
		[]item{{n.id(), n.URL, noticeTitle, n.text(), n.Now.UTC().Format(time.RFC3339)}},
	})
	return append(text, '\n')
}
