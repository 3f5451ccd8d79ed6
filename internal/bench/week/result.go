package week

import (
	"net/http"
	"slices"
	"time"
)

// A Result is what a week came to.
type Result struct {
	Options
	// Outcomes by kind, in the order of Kinds.
	Outcomes []Outcome
	// Hours are the bytes of each hour, by world and manners.
	Hours [worlds][allManners][]int64
	// Versions of the feed that were published, and when.
	Versions []time.Duration

	crowd []member
}

// An Outcome is what a week came to for one kind of readers.
type Outcome struct {
	Kind    *Kind
	Clients int
	Worlds  [worlds]Count
}

// A member is one of those who read.
type member struct{ kind, index int }

// A Count is what happened to some readers in one world.
type Count struct {
	Requests int
	Arrived  int // at what serves the site
	Whole    int // answers of status 200 to a GET
	Same     int // 304, whoever said so
	Refused  int // 4xx and 5xx
	// Head and Body are bytes of answers.
	Head, Body int64
	// Joining are requests of readers that subscribe, careless ones apart, and JoiningRefused those
	// of them that were refused.
	Joining, JoiningRefused int
	// PolitePolls showed what their reader was given last, and came no sooner than the feed
	// wants, a tenth early at most.
	PolitePolls, PoliteRefused int
	// Told are polls after a refusal, and Heeded those of them that did not come before
	// Retry-After had passed.
	Told, Heeded int
	// GaveUp are readers that will not come again.
	GaveUp int
	// Delays are how long after its publication readers got a version.
	Delays []time.Duration
	// Missed is what had been out for a day when the week ended, and its reader did not have.
	Missed int
}

// Bytes are all that were sent.
func (c *Count) Bytes() int64 { return c.Head + c.Body }

// note counts an answer.
func (c *Count) note(a *answer, joining bool) {
	c.Requests++
	c.Head += a.head
	c.Body += a.body
	if a.arrived {
		c.Arrived++
	}
	switch {
	case a.refused():
		c.Refused++
	case a.status == http.StatusNotModified:
		c.Same++
	case a.method == http.MethodGet:
		c.Whole++
	}
	if joining {
		c.Joining++
		if a.refused() {
			c.JoiningRefused++
		}
	}
}

// add adds what happened to others.
func (c *Count) add(o *Count) {
	c.Requests += o.Requests
	c.Arrived += o.Arrived
	c.Whole += o.Whole
	c.Same += o.Same
	c.Refused += o.Refused
	c.Head += o.Head
	c.Body += o.Body
	c.Joining += o.Joining
	c.JoiningRefused += o.JoiningRefused
	c.PolitePolls += o.PolitePolls
	c.PoliteRefused += o.PoliteRefused
	c.Told += o.Told
	c.Heeded += o.Heeded
	c.GaveUp += o.GaveUp
	c.Delays = append(c.Delays, o.Delays...)
	c.Missed += o.Missed
}

// Delay returns within what time that part of all that was new reached its readers.
func (c *Count) Delay(part float64) time.Duration {
	if len(c.Delays) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.Delays))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func newResult(o Options) *Result {
	r := &Result{Options: o}
	for i := range Kinds {
		out := Outcome{Kind: &Kinds[i], Clients: Kinds[i].clients(o.Subscribers)}
		for range out.Clients {
			r.crowd = append(r.crowd, member{i, len(r.crowd)})
		}
		r.Outcomes = append(r.Outcomes, out)
	}
	for w := range r.Hours {
		for m := range r.Hours[w] {
			r.Hours[w][m] = make([]int64, (o.Span+time.Hour-1)/time.Hour)
		}
	}
	for _, at := range plan {
		if at < o.Span {
			r.Versions = append(r.Versions, at)
		}
	}
	return r
}

// weigh adds an answer to its hour.
func (r *Result) weigh(w World, m Manners, now time.Time, a *answer) {
	r.Hours[w][m][now.Sub(Begin)/time.Hour] += a.head + a.body
}

// Of returns what happened in a world to all readers of such manners, and how many they are.
func (r *Result) Of(w World, m Manners) (c Count, clients int) {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Kind.Manners() == m {
			c.add(&o.Worlds[w])
			clients += o.Clients
		}
	}
	return c, clients
}

// All returns the same of all readers.
func (r *Result) All(w World) (c Count, clients int) {
	for m := range allManners {
		of, n := r.Of(w, m)
		c.add(&of)
		clients += n
	}
	return c, clients
}

// Add adds another week of the same length and as many subscribers.
func (r *Result) Add(o *Result) {
	for i := range r.Outcomes {
		r.Outcomes[i].Clients += o.Outcomes[i].Clients
		for w := range r.Outcomes[i].Worlds {
			r.Outcomes[i].Worlds[w].add(&o.Outcomes[i].Worlds[w])
		}
	}
	for w := range r.Hours {
		for m := range r.Hours[w] {
			for hour, n := range o.Hours[w][m] {
				r.Hours[w][m][hour] += n
			}
		}
	}
	r.Subscribers += o.Subscribers
}

// Saved returns what part of the bytes without are saved with.
func Saved(without, with *Count) float64 {
	if without.Bytes() == 0 {
		return 0
	}
	return 1 - float64(with.Bytes())/float64(without.Bytes())
}
