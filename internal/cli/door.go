package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/limiter/redisstore"
)

// A door is a way to the list.
type door interface {
	Add(ctx context.Context, a admin.Add) (admin.Done, error)
	Preview(ctx context.Context, a admin.Add) (admin.Preview, error)
	Remove(ctx context.Context, rm admin.Remove) (admin.Done, error)
	SetMode(ctx context.Context, m admin.SetMode) (admin.Done, error)
	Undo(ctx context.Context, u admin.Undo) (admin.Done, error)
	Import(ctx context.Context, im admin.Import) (admin.Done, error)
	Ban(ctx context.Context, b admin.BanKey) (admin.Done, error)
	Lift(ctx context.Context, l admin.Lift) (admin.Done, error)
	Test(ctx context.Context, a config.Ask) (admin.Verdict, error)
	List(ctx context.Context, n admin.Narrow) (admin.List, error)
	History(ctx context.Context, n int) ([]admin.Record, error)
	Export(ctx context.Context) (string, error)
}

// reach defines the flags that all verbs of the list have.
func reach(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.SortFlags = false
	f.String("address", "", "admin endpoint of the running Caddy: an `address` such as localhost:2019\nor unix//run/caddy.sock (default: of --config, or Caddy's own)")
	f.StringP("config", "c", "", "`file` that says where the admin endpoint is; with --direct\nalso where the list is")
	f.StringP("adapter", "a", "", "config adapter of --config, by `name`")
	f.Bool("direct", false, "go straight to where the list is kept, past Caddy")
	f.StringSlice("redis", nil, "go straight to Redis: an `address`, host:port or a URL; several\nare nodes of a cluster, or sentinels")
	f.String("username", "", "user of Redis, by `name`")
	f.String("password-file", "", "`file` with the password of Redis")
	f.String("sentinel", "", "`name` of the master, if --redis names sentinels")
	f.Bool("cluster", false, "--redis names nodes of a cluster")
	f.Int("db", 0, "`number` of the database")
	f.Bool("tls", false, "encrypt connections to Redis")
	f.String("tls-ca", "", "`file` with the authorities of Redis' certificates")
	f.String("tls-cert", "", "`file` with the certificate to show to Redis")
	f.String("tls-key", "", "`file` with its private key")
	f.String("tls-server-name", "", "`name` in Redis' certificate")
	f.String("prefix", redisstore.DefaultPrefix, "how the names of what is stored begin: a `text`")
	f.String("secret-file", "", "`file` with the secret of hash_keys, if the configuration has one")
	f.Bool("clear-keys", false, "keys are kept in clear: hash_keys is off")
	f.String("file", "", "go straight to the `file` of a list that is not in Redis")
	f.Duration("timeout", 10*time.Second, "the longest to wait for an answer")
	f.Bool("json", false, "write JSON, for programs")
}

// orders defines the flags of verbs that change the list.
func orders(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("by", "", "`who` makes the change (default user@host)")
	f.String("why", "", "`reason`, for the trail of changes")
	f.Bool("force", false, "do it although it is dangerous")
}

// order reads those flags.
func order(cmd *cobra.Command) admin.Order {
	f := cmd.Flags()
	by, _ := f.GetString("by")
	why, _ := f.GetString("why")
	force, _ := f.GetBool("force")
	return admin.Order{By: cmp.Or(by, whoami()), Why: why, Force: force, Caller: caller()}
}

// whoami is user@host: whoever called sudo, not root.
func whoami() string {
	name := os.Getenv("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	host, _ := os.Hostname()
	return cmp.Or(name, "somebody") + "@" + cmp.Or(host, "somewhere")
}

// caller is the address from which the operator comes: a session of SSH knows it, a terminal
// at the machine has none.
func caller() string {
	from, _, _ := strings.Cut(cmp.Or(os.Getenv("SSH_CLIENT"), os.Getenv("SSH_CONNECTION")), " ")
	if addr, err := netip.ParseAddr(from); err == nil && !addr.IsLoopback() {
		return addr.WithZone("").String()
	}
	return ""
}

// open opens the door that the flags name. close it afterwards.
func open(cmd *cobra.Command) (d door, close func(), err error) {
	f := cmd.Flags()
	redis, _ := f.GetStringSlice("redis")
	file, _ := f.GetString("file")
	direct, _ := f.GetBool("direct")
	ways := 0
	for _, given := range []bool{len(redis) > 0, file != "", direct, f.Changed("address")} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return nil, nil, errors.New("--address, --direct, --redis and --file: only one of them")
	case len(redis) > 0:
		o, err := redisOptions(cmd, redis)
		if err != nil {
			return nil, nil, err
		}
		return behind(config.RedisPlace(o))
	case file != "":
		clear, _ := f.GetBool("clear-keys")
		key, err := secret(text(cmd, "secret-file"))
		if err != nil {
			return nil, nil, fmt.Errorf("--secret-file: %w", err)
		}
		return behind(config.FilePlace(file, clear, []byte(key)))
	case direct:
		app, err := configured(cmd)
		if err != nil {
			return nil, nil, err
		}
		return behind(app.Place(timeout(cmd)))
	}
	c, err := client(cmd)
	if err != nil {
		return nil, nil, err
	}
	return c, func() {}, nil
}

// client returns what asks the admin endpoint that the flags name.
func client(cmd *cobra.Command) (*admin.Client, error) {
	address, err := adminAddress(cmd)
	if err != nil {
		return nil, err
	}
	return admin.NewClient(address)
}

// behind makes a door of the place where a list is kept.
func behind(p *config.Place, err error) (door, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return admin.Desk{Board: admin.Direct{Place: p}}, func() { _ = p.Close() }, nil // nothing is under way
}

func timeout(cmd *cobra.Command) time.Duration {
	d, _ := cmd.Flags().GetDuration("timeout")
	return d
}

// adminAddress returns where the admin endpoint is, as Caddy's own commands find it.
func adminAddress(cmd *cobra.Command) (string, error) {
	f := cmd.Flags()
	address, _ := f.GetString("address")
	file, _ := f.GetString("config")
	adapter, _ := f.GetString("adapter")
	if address == "" && file == "" {
		address = os.Getenv("CADDY_ADMIN") // as Caddy itself does
	}
	return caddycmd.DetermineAdminAPIAddress(address, nil, file, adapter)
}

// configured returns what a configuration says of the app.
func configured(cmd *cobra.Command) (*config.App, error) {
	f := cmd.Flags()
	file, _ := f.GetString("config")
	adapter, _ := f.GetString("adapter")
	text, used, _, err := caddycmd.LoadConfig(file, adapter)
	if err != nil {
		return nil, err
	}
	if used == "" {
		return nil, errors.New("--direct: no configuration: name it by --config")
	}
	var parsed struct {
		Apps struct {
			Weir config.App `json:"weir"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", used, err)
	}
	return &parsed.Apps.Weir, nil
}

// redisOptions reads the flags about Redis.
func redisOptions(cmd *cobra.Command, addresses []string) (redisstore.Options, error) {
	f := cmd.Flags()
	text := func(name string) string { s, _ := f.GetString(name); return s }
	flag := func(name string) bool { on, _ := f.GetBool(name); return on }
	o := redisstore.Options{
		Addresses: addresses, Sentinel: text("sentinel"), Cluster: flag("cluster"),
		Username: text("username"), Prefix: text("prefix"), Timeout: timeout(cmd),
		ClearKeys: flag("clear-keys"), PoolSize: 2,
	}
	o.DB, _ = f.GetInt("db")
	tls := redisstore.TLS{CA: text("tls-ca"), Cert: text("tls-cert"), Key: text("tls-key"), ServerName: text("tls-server-name")}
	if flag("tls") || tls != (redisstore.TLS{}) {
		o.TLS = &tls
	}
	var err error
	if o.Password, err = secret(text("password-file")); err != nil {
		return o, fmt.Errorf("--password-file: %w", err)
	}
	key, err := secret(text("secret-file"))
	if err != nil {
		return o, fmt.Errorf("--secret-file: %w", err)
	}
	o.Secret = []byte(key)
	return o, nil
}

// secret reads a file with one secret in it; empty if there is no file.
func secret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line := strings.TrimRight(string(text), "\r\n")
	if line == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return line, nil
}

// run opens the door, has work done in time, and ends the command by what came of it. If
// that takes a while, it says what it is waiting for.
func run(cmd *cobra.Command, work func(ctx context.Context, d door) error) error {
	d, closeDoor, err := open(cmd)
	if err != nil {
		return exit(cmd, trouble, err)
	}
	defer closeDoor()
	return inTime(cmd, func(ctx context.Context) error { return work(ctx, d) })
}

// inTime has work done within the timeout, as run does.
func inTime(cmd *cobra.Command, work func(ctx context.Context) error) error {
	limit := timeout(cmd)
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	patience := time.AfterFunc(time.Second, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "waiting for an answer, at most %s …\n", limit)
	})
	defer patience.Stop()
	if err := work(ctx); err != nil {
		var code codeError
		if errors.As(err, &code) {
			return exit(cmd, int(code), nil)
		}
		return fail(cmd, err)
	}
	return nil
}

// codeError ends a command that has said all itself.
type codeError int

func (e codeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
