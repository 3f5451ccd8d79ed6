package config

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/caddy-weir/limiter"
)

// Settle corrects what a request was charged by what became of it: at entry its zone's
// cost is reserved, and when it has been served its price takes the cost's place. The
// first of these that says something is the price: the header, the status, the bytes.
// Otherwise the cost stays. Only limits over a window are corrected.
//
// The idea of charging after the fact is old: Slashdot's throttle of 2004 counted a hit
// after its page was sent.
type Settle struct {
	// Status gives prices by status, `304`, or by class, `5xx`: whole numbers, 0 for
	// nothing. A status comes before its class.
	Status map[string]int64 `json:"status,omitempty"`
	// Header is the name of a field of the answer that says the price, a whole number.
	// What is not one says nothing.
	Header string `json:"header,omitempty"`
	// Bytes is how many bytes of body are worth 1, part of them rounded up: a body of
	// none costs nothing. Default: bytes do not matter.
	Bytes int64 `json:"bytes,omitempty"`
}

// check says what is wrong with the prices.
func (s *Settle) check(r report) {
	if len(s.Status) == 0 && s.Header == "" && s.Bytes == 0 {
		r.problemf("settles nothing: needs a status, a header or bytes")
	}
	for _, word := range slices.Sorted(maps.Keys(s.Status)) {
		in := r.in("status %s", word)
		if !IsStatus(word) {
			in.problemf("must be a status such as 304, or a class such as 5xx")
		}
		if price := s.Status[word]; price < 0 || price > limiter.MaxEvents {
			in.problemf("must cost between 0 and %d, got %d", int64(limiter.MaxEvents), price)
		}
	}
	if strings.ContainsFunc(s.Header, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) {
		r.in("header").problemf("%q is not the name of a header", s.Header)
	}
	if s.Bytes < 0 {
		r.in("bytes").problemf("must be at least 1, got %d", s.Bytes)
	}
}

// IsStatus reports whether a word is a status, or a class of them, that may have a price.
func IsStatus(word string) bool {
	_, _, ok := parseStatus(word)
	return ok
}

// parseStatus reads a status, or a class of them as its first digit.
func parseStatus(word string) (status, class int, ok bool) {
	if digit, found := strings.CutSuffix(word, "xx"); found {
		class, err := strconv.Atoi(digit)
		return 0, class, err == nil && 1 <= class && class <= 5
	}
	status, err := strconv.Atoi(word)
	return status, 0, err == nil && 100 <= status && status <= 599
}

// prices is a Settle that is built.
type prices struct {
	status  map[int]int64
	classes [6]int64 // by first digit; -1 where none is given
	header  string
	bytes   int64
}

// compile makes valid prices ready to use; nil if there are none.
func (s *Settle) compile() *prices {
	if s == nil {
		return nil
	}
	p := &prices{status: make(map[int]int64), header: http.CanonicalHeaderKey(s.Header), bytes: s.Bytes}
	for i := range p.classes {
		p.classes[i] = -1
	}
	for word, price := range s.Status {
		if status, class, _ := parseStatus(word); class > 0 {
			p.classes[class] = price
		} else {
			p.status[status] = price
		}
	}
	return p
}

// of returns the price of a request that became what was seen, and was charged cost.
func (p *prices) of(seen *Response, cost int64) int64 {
	if p.header != "" {
		price, err := strconv.ParseInt(strings.TrimSpace(seen.Header.Get(p.header)), 10, 64)
		if err == nil && price >= 0 {
			return min(price, limiter.MaxEvents)
		}
	}
	if price, ok := p.status[seen.Status]; ok {
		return price
	}
	if class := seen.Status / 100; 0 < class && class < len(p.classes) && p.classes[class] >= 0 {
		return p.classes[class]
	}
	if p.bytes > 0 && seen.Status != 0 {
		return min((seen.Bytes+p.bytes-1)/p.bytes, limiter.MaxEvents)
	}
	return cost
}

// settle corrects what was charged for a request by the asks of one zone.
func (p *prices) settle(with settlers, asks []limiter.Ask, results []limiter.Result, seen *Response) {
	for i := range asks {
		a, r := &asks[i], &results[i]
		if !r.Allowed || !a.Limit.HasQuota() {
			continue // not charged, or not for what a request costs
		}
		if price := p.of(seen, a.Cost); price != a.Cost {
			with.of(r.Origin).add(limiter.Change{Limit: a.Limit, Key: a.Key, Delta: price - a.Cost, Spent: r.Now})
		}
	}
}
