package observe

import (
	"encoding/binary"
	"strings"

	"github.com/weirhq/caddy-weir/blocklist"
)

// The room of one request in the sample, in bytes: of all its texts, of one text, of one
// that is more telling, and of the user, which is kept free until the request's end.
const (
	pageRoom = 1024
	textRoom = 88
	longRoom = 192
	userRoom = 64

	methodRoom = 16
	sizeRoom   = 2 // of a length
)

// secrets are parts of the names of headers that are not kept: they let somebody in.
var secrets = []string{"Cookie", "Auth", "Token", "Secret", "Key", "Password", "Session", "Csrf", "Xsrf", "Signature", "Credential", "Assertion"}

// Kept reports whether the sample keeps the header of that canonical name.
func Kept(header string) bool {
	for _, part := range secrets {
		if strings.Contains(header, part) {
			return false
		}
	}
	return true
}

// A page is the texts of one request, one after the other, each after its length. It is
// written over and over, and grows no larger than pageRoom.
type page struct {
	text []byte
	user int // where the user stands, behind all else
	cut  bool
}

// write puts a request on the page, in the order in which read takes it off.
func (p *page) write(r *blocklist.Request) {
	if p.text == nil {
		p.text = make([]byte, 0, pageRoom)
	}
	p.text, p.cut = p.text[:0], false
	p.put(r.Host, textRoom)
	p.put(r.Path, longRoom)
	p.put(r.URL, longRoom)
	p.put(r.Query, longRoom)
	p.put(r.Method, methodRoom)
	p.put(r.MessageType, textRoom)
	p.put(r.User, textRoom)
	p.put(r.Handler, textRoom)
	if agents := r.Header["User-Agent"]; len(agents) > 0 {
		p.field("User-Agent", agents[0], longRoom)
	}
	for name, values := range r.Header {
		if name == "User-Agent" || !Kept(name) {
			continue
		}
		for _, value := range values {
			p.field(name, value, textRoom)
		}
	}
	for _, arg := range r.Args {
		p.field("", arg, textRoom)
	}
	p.user = len(p.text)
}

// sign puts the user at the page's end.
func (p *page) sign(user string) {
	p.text = p.text[:p.user]
	p.put(user, userRoom-sizeRoom)
}

// field puts one of many on the page, if it has room for the name and more.
func (p *page) field(name, value string, most int) {
	if p.left() < 2*sizeRoom+len(name)+8 {
		p.cut = true
		return
	}
	p.put(name, len(name))
	p.put(value, most)
}

// left returns the room that is left, without that of the user.
func (p *page) left() int { return pageRoom - userRoom - len(p.text) }

// put puts a text on the page, cut to most bytes and to what room there is.
func (p *page) put(text string, most int) {
	if free := cap(p.text) - len(p.text) - sizeRoom; most > free {
		most = free
	}
	if len(text) > most {
		text, p.cut = text[:most], true
	}
	p.text = binary.LittleEndian.AppendUint16(p.text, uint16(len(text)))
	p.text = append(p.text, text...)
}

// take returns the text that rest begins with, and what follows it.
func take(rest string) (text, after string) {
	n := sizeRoom + int(rest[0]) + int(rest[1])<<8
	return rest[sizeRoom:n], rest[n:]
}

// read returns a copy of what is on the page.
func (p *page) read() (r blocklist.Request, user string) {
	rest := string(p.text[:p.user])
	for _, field := range []*string{&r.Host, &r.Path, &r.URL, &r.Query, &r.Method, &r.MessageType, &r.User, &r.Handler} {
		*field, rest = take(rest)
	}
	r.Header = make(map[string][]string)
	for rest != "" {
		var name, value string
		name, rest = take(rest)
		value, rest = take(rest)
		if name == "" {
			r.Args = append(r.Args, value)
		} else {
			r.Header[name] = append(r.Header[name], value)
		}
	}
	if p.user < len(p.text) {
		user, _ = take(string(p.text[p.user:]))
	}
	return r, user
}
