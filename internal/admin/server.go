package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/limiter"
)

func init() { caddy.RegisterModule(new(API)) }

// API is the part of Caddy's admin endpoint that is ours:
//
//	GET  /weir/block/list      the list: rules, bans, mode, sources
//	POST /weir/block/add       puts rules (Add), or text/plain with a rule a line
//	POST /weir/block/remove    takes out rules (Remove)
//	POST /weir/block/mode      enforce, dry_run or off, for all or for some (SetMode)
//	POST /weir/block/test      what would become of a request (config.Ask)
//	POST /weir/block/preview   what rules would have hit (Add)
//	GET  /weir/block/trail     who changed what, and when
//	POST /weir/block/undo      takes a change back (Undo)
//	GET  /weir/block/export    the list as text
//	POST /weir/block/import    a change as text (Import), or as text/plain
//	POST /weir/block/ban       keeps a client out (BanKey)
//	POST /weir/block/lift      ends bans (Lift)
//	GET  /weir/feed/readers    how readers of feeds behave (Readers)
//	GET, POST /weir/check      may this job run? see config.Check
//
// All of it answers 503 until a configuration with the app runs. Who may ask is up to
// Caddy's own checks of the admin endpoint.
type API struct{}

// CaddyModule implements [caddy.Module].
func (*API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.weir", New: func() caddy.Module { return new(API) }}
}

// root is where our part of the admin endpoint begins.
const root = "/weir/"

// maxBody is the longest body of a request, in bytes.
const maxBody = 16 << 20

// A call answers one kind of request.
type call struct {
	method string
	answer func(d Desk, r *http.Request) (any, error)
}

// calls are the verbs of the block list.
var calls = map[string]call{
	"list":    {http.MethodGet, list},
	"trail":   {http.MethodGet, trail},
	"export":  {http.MethodGet, export},
	"add":     {http.MethodPost, order(Desk.Add)},
	"preview": {http.MethodPost, order(Desk.Preview)},
	"remove":  {http.MethodPost, order(Desk.Remove)},
	"mode":    {http.MethodPost, order(Desk.SetMode)},
	"undo":    {http.MethodPost, order(Desk.Undo)},
	"import":  {http.MethodPost, order(Desk.Import)},
	"ban":     {http.MethodPost, order(Desk.Ban)},
	"lift":    {http.MethodPost, order(Desk.Lift)},
	"test":    {http.MethodPost, order(Desk.Test)},
}

// Routes implements [caddy.AdminRouter].
func (*API) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: root + "block/", Handler: caddy.AdminHandlerFunc(serveBlock)},
		{Pattern: root + "feed/readers", Handler: caddy.AdminHandlerFunc(serveReaders)},
		{Pattern: root + "check", Handler: caddy.AdminHandlerFunc(serveCheck)},
	}
}

func serveCheck(w http.ResponseWriter, r *http.Request) error {
	running := config.Live()
	if running == nil {
		return failure(errNotRunning)
	}
	if err := running.List().Use(r.Context()); err != nil {
		return failure(err)
	}
	if err := running.Check(w, r); err != nil {
		return caddy.APIError{HTTPStatus: err.Status, Err: err}
	}
	return nil
}

func serveBlock(w http.ResponseWriter, r *http.Request) error {
	verb := strings.TrimPrefix(r.URL.Path, root+"block/")
	c, known := calls[verb]
	if !known {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no call %q", verb)}
	}
	running, err := admit(w, r, verb, c.method)
	if err != nil {
		return err
	}
	if err := running.List().Use(r.Context()); err != nil {
		return failure(err)
	}
	answer, err := c.answer(Desk{live{running}}, r)
	if err != nil {
		return failure(err)
	}
	return write(w, answer)
}

// admit returns the configuration that is to answer a call, if that has its method.
func admit(w http.ResponseWriter, r *http.Request, verb, method string) (*config.Shared, error) {
	if r.Method != method {
		w.Header().Set("Allow", method)
		return nil, caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("%s: method must be %s, got %s", verb, method, r.Method)}
	}
	running := config.Live()
	if running == nil {
		return nil, failure(errNotRunning)
	}
	return running, nil
}

// write sends an answer: a text as it is, all else as JSON.
func write(w http.ResponseWriter, answer any) error {
	w.Header().Set("Cache-Control", "no-store")
	if text, ok := answer.(string); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err := io.WriteString(w, text)
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(answer)
}

// errNotRunning says that there is nothing to ask yet.
var errNotRunning = fmt.Errorf("no configuration with the app weir runs yet: %w", limiter.ErrUnavailable)

// failure gives an error its status.
func failure(err error) error {
	status := http.StatusInternalServerError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, ErrDanger):
		status = http.StatusConflict
	case errors.As(err, &tooLarge):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("body: must be at most %d bytes", tooLarge.Limit)
	case errors.Is(err, blocklist.ErrRefused):
		status = http.StatusBadRequest
	case errors.Is(err, limiter.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrAbsent):
		status = http.StatusServiceUnavailable
	}
	return caddy.APIError{HTTPStatus: status, Err: err}
}

// order reads what a request says, and has a desk do it.
func order[T, A any](do func(Desk, context.Context, T) (A, error)) func(d Desk, r *http.Request) (any, error) {
	return func(d Desk, r *http.Request) (any, error) {
		var what T
		if err := readOrder(r, &what); err != nil {
			return nil, err
		}
		return do(d, r.Context(), what)
	}
}

// readOrder reads the body of a request.
func readOrder(r *http.Request, what any) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "text/plain" {
		err = readPlain(r, string(body), what)
	} else {
		err = readObject(body, what)
	}
	if err != nil {
		return blocklist.Refuse(err)
	}
	if o, ok := what.(interface{ order() *Order }); ok {
		o.order().complete(r)
	}
	return nil
}

func readObject(body []byte, what any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(what); err != nil {
		return fmt.Errorf("body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body: holds more than one JSON value")
	}
	return nil
}

// readPlain reads lines of text, with what belongs to all of them in the query.
func readPlain(r *http.Request, text string, what any) error {
	q := r.URL.Query()
	o := Order{By: q.Get("by"), Why: q.Get("why"), Caller: q.Get("caller")}
	var err error
	if o.Force, err = flag(q.Get("force")); err != nil {
		return fmt.Errorf("force: %w", err)
	}
	switch what := what.(type) {
	case *Add:
		*what = Add{Order: o, Expires: q.Get("expires")}
		for line := range strings.Lines(text) {
			what.Lines = append(what.Lines, strings.TrimSpace(line))
		}
	case *Import:
		*what = Import{Order: o, Text: text}
		if what.Replace, err = flag(q.Get("replace")); err != nil {
			return fmt.Errorf("replace: %w", err)
		}
	default:
		return errors.New("body: must be JSON, of content type application/json")
	}
	return nil
}

func flag(text string) (bool, error) {
	on, err := strconv.ParseBool(cmp.Or(text, "false"))
	if err != nil {
		return false, fmt.Errorf("must be true or false, got %q", text)
	}
	return on, nil
}

func (o *Order) order() *Order { return o }

// complete fills in what the connection tells. A peer on this machine may be anybody's
// tunnel, and its address says nothing.
func (o *Order) complete(r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "local"
	}
	o.By = cmp.Or(o.By, "admin@"+host)
	if addr, err := netip.ParseAddr(host); err == nil && !addr.IsLoopback() {
		o.Caller = cmp.Or(o.Caller, addr.WithZone("").String())
	}
}

func list(d Desk, r *http.Request) (any, error) {
	n := Narrow{Client: r.URL.Query().Get("client")}
	var err error
	if n.Bans, err = count(r.URL.Query(), "bans", usualBans); err != nil {
		return nil, err
	}
	return d.List(r.Context(), n)
}

// usualBans is how many bans are shown unless somebody wants more.
const usualBans = 100

func trail(d Desk, r *http.Request) (any, error) {
	n, err := count(r.URL.Query(), "n", usualTrail)
	if err != nil {
		return nil, err
	}
	return d.History(r.Context(), n)
}

func export(d Desk, r *http.Request) (any, error) { return d.Export(r.Context()) }

// count reads a number of the query.
func count(q url.Values, name string, usual int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, blocklist.Refuse(fmt.Errorf("%s: must be a whole number, got %q", name, text))
	}
	return n, nil
}

var (
	_ caddy.Module      = (*API)(nil)
	_ caddy.AdminRouter = (*API)(nil)
)
