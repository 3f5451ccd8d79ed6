package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/weirhq/caddy-weir/internal/config"
)

// A Client asks the admin endpoint of a Caddy. Its methods are those of [Desk].
type Client struct {
	address string
	host    string // what requests name as their host
	http    *http.Client
}

// A StatusError is what the admin endpoint has to say against a request.
type StatusError struct {
	// Status of the answer.
	Status  int
	message string
}

// Error returns the endpoint's own words.
func (e *StatusError) Error() string { return e.message }

// Is makes a refusal for danger that of the desk behind the endpoint.
func (e *StatusError) Is(err error) bool { return err == ErrDanger && e.Status == http.StatusConflict }

// NewClient returns a client of the admin endpoint at a Caddy network address, such as
// localhost:2019 or unix//run/caddy.sock. It connects with each call.
func NewClient(address string) (*Client, error) {
	a, err := caddy.ParseNetworkAddress(strings.TrimPrefix(address, "http://"))
	if err != nil || a.PortRangeSize() > 1 {
		return nil, fmt.Errorf("address: must be that of an admin endpoint, such as localhost:2019, got %q", address)
	}
	c := &Client{address: address, host: a.JoinHostPort(0)}
	dial := a.JoinHostPort(0)
	if a.IsUnixNetwork() {
		// Behind the path there may stand the socket's permissions.
		dial, _, _ = strings.Cut(a.Host, "|")
		c.host = "127.0.0.1"
	}
	var d net.Dialer
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, a.Network, dial)
		},
		DisableKeepAlives: true,
	}}
	return c, nil
}

// do asks for one thing, and reads the answer into it.
func (c *Client) do(ctx context.Context, method, path string, what, answer any) error {
	var body io.Reader
	if what != nil {
		text, err := json.Marshal(what)
		if err != nil {
			return err
		}
		if len(text) > maxBody {
			return &StatusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: must be at most %d bytes, got %d", maxBody, len(text))}
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.host+root+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", "http://"+c.host)
	resp, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(ctx, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return c.unreachable(ctx, path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.StatusCode, text)
	}
	if plain, ok := answer.(*string); ok {
		*plain = string(text)
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("admin endpoint %s: answers what is not understood: %w", c.address, err)
	}
	return nil
}

// unreachable says that nobody answered.
func (c *Client) unreachable(ctx context.Context, path string, err error) error {
	var op *net.OpError
	unsure := orders[path] && (!errors.As(err, &op) || op.Op != "dial")
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return &AwayError{c.address, err, unsure}
}

// orders are the calls that change the list.
var orders = map[string]bool{
	"block/add": true, "block/remove": true, "block/mode": true, "block/undo": true,
	"block/import": true, "block/ban": true, "block/lift": true,
}

// An AwayError says that the admin endpoint did not answer.
type AwayError struct {
	address string
	err     error
	unsure  bool // whether a change was sent, which may have been made
}

// Error says so, with why.
func (e *AwayError) Error() string {
	if e.unsure {
		return e.plain() + ": whether the change was made is not known, see the trail once it answers"
	}
	return e.plain()
}

func (e *AwayError) plain() string {
	why := e.err
	for inner := why; inner != nil; {
		why = inner // the innermost says it in fewest words
		u, ok := inner.(interface{ Unwrap() error })
		if !ok {
			break
		}
		inner = u.Unwrap()
	}
	if why == context.DeadlineExceeded {
		return fmt.Sprintf("admin endpoint %s: does not answer in time", e.address)
	}
	return fmt.Sprintf("admin endpoint %s: cannot be reached: %v", e.address, why)
}

// Unwrap returns why.
func (e *AwayError) Unwrap() error { return e.err }

func (c *Client) refused(status int, body []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Error == "" {
		if status == http.StatusNotFound {
			said.Error = "has no module weir"
		} else {
			said.Error = "answers " + strconv.Itoa(status) + " " + http.StatusText(status)
		}
		said.Error = fmt.Sprintf("admin endpoint %s: %s", c.address, said.Error)
	}
	return &StatusError{status, said.Error}
}

func ask[A any](ctx context.Context, c *Client, method, path string, what any) (answer A, err error) {
	err = c.do(ctx, method, path, what, &answer)
	return answer, err
}

// Add is [Desk.Add].
func (c *Client) Add(ctx context.Context, a Add) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/add", a)
}

// Preview is [Desk.Preview].
func (c *Client) Preview(ctx context.Context, a Add) (Preview, error) {
	return ask[Preview](ctx, c, http.MethodPost, "block/preview", a)
}

// Remove is [Desk.Remove].
func (c *Client) Remove(ctx context.Context, rm Remove) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/remove", rm)
}

// SetMode is [Desk.SetMode].
func (c *Client) SetMode(ctx context.Context, m SetMode) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/mode", m)
}

// Undo is [Desk.Undo].
func (c *Client) Undo(ctx context.Context, u Undo) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/undo", u)
}

// Import is [Desk.Import].
func (c *Client) Import(ctx context.Context, im Import) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/import", im)
}

// Ban is [Desk.Ban].
func (c *Client) Ban(ctx context.Context, b BanKey) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/ban", b)
}

// Lift is [Desk.Lift].
func (c *Client) Lift(ctx context.Context, l Lift) (Done, error) {
	return ask[Done](ctx, c, http.MethodPost, "block/lift", l)
}

// Test is [Desk.Test].
func (c *Client) Test(ctx context.Context, a config.Ask) (Verdict, error) {
	return ask[Verdict](ctx, c, http.MethodPost, "block/test", a)
}

// List is [Desk.List].
func (c *Client) List(ctx context.Context, n Narrow) (List, error) {
	q := url.Values{"bans": {strconv.Itoa(n.Bans)}}
	if n.Client != "" {
		q.Set("client", n.Client)
	}
	return ask[List](ctx, c, http.MethodGet, "block/list?"+q.Encode(), nil)
}

// History is [Desk.History].
func (c *Client) History(ctx context.Context, n int) ([]Record, error) {
	return ask[[]Record](ctx, c, http.MethodGet, "block/trail?n="+strconv.Itoa(n), nil)
}

// Export is [Desk.Export].
func (c *Client) Export(ctx context.Context) (string, error) {
	return ask[string](ctx, c, http.MethodGet, "block/export", nil)
}
