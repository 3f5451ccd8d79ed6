// Package grammar says how each block of a Caddyfile is written: one table a block, one
// row an option, into the fields of package config. Where a block may stand, and what
// becomes of it, the root's caddyfile.go says.
package grammar

import (
	"errors"
	"fmt"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// The words that options of several blocks choose from.
var (
	headerStyles = []string{"legacy", "draft", "both", "off"}
	storeErrors  = []string{"local", "allow", "deny"}
)

// App is the table of the global option weir.
func App(app *config.App) directive.Table {
	return directive.Table{
		directive.Nested("redis", "<address...>", -1, redis(new(config.Redis)), func(b *directive.Body) error {
			app.Redis = &config.Redis{Addresses: b.Args}
			return b.Read(redis(app.Redis))
		}),
		directive.OneOf("on_store_error", &app.OnStoreError, storeErrors...),
		directive.Count("instances", "<n>", &app.Instances),
		directive.Args("hash_keys", "on|off|secret <string>", 1, 2, func(args []string) error {
			switch {
			case args[0] == "secret" && len(args) == 2 && args[1] == "":
				return errors.New("secret: must not be empty")
			case args[0] == "secret" && len(args) == 2:
				app.Secret = args[1]
			case (args[0] == "on" || args[0] == "off") && len(args) == 1:
				app.HashKeys = args[0]
			default: // what was written may be a secret, so it is not repeated
				return errors.New(`must be "on", "off" or "secret <string>"`)
			}
			return nil
		}),
		directive.Args("ip_prefix", "<v4> <v6>", 2, 2, func(args []string) error {
			if err := directive.Whole(args[0], 1, &app.IPv4Prefix); err != nil {
				return fmt.Errorf("v4: %w", err)
			}
			if err := directive.Whole(args[1], 1, &app.IPv6Prefix); err != nil {
				return fmt.Errorf("v6: %w", err)
			}
			return nil
		}),
		directive.OneOf("headers", &app.Headers, headerStyles...),
		directive.Count("max_keys", "<n>", &app.MaxKeys),
		directive.Args("tarpit", "<n> <duration>", 2, 2, func(args []string) error {
			app.Tarpit = new(config.Tarpit)
			if err := directive.Whole(args[0], 1, &app.Tarpit.Max); err != nil {
				return err
			}
			return directive.Span(args[1], &app.Tarpit.Time)
		}),
		directive.Nested("block", "", 0, sharedBlock(new(config.SharedBlock)), func(b *directive.Body) error {
			app.Block = new(config.SharedBlock)
			return b.Read(sharedBlock(app.Block))
		}),
	}
}

func redis(r *config.Redis) directive.Table {
	return directive.Table{
		directive.Text("sentinel", "<master>", &r.Sentinel),
		directive.Flag("cluster", &r.Cluster),
		directive.Nested("tls", "", 0, redisTLS(new(config.RedisTLS)), func(b *directive.Body) error {
			r.TLS = new(config.RedisTLS)
			return b.Read(redisTLS(r.TLS))
		}),
		directive.Text("username", "<string>", &r.Username),
		directive.Text("password", "<string>", &r.Password),
		directive.Args("db", "<n>", 1, 1, func(args []string) error { return directive.Whole(args[0], 0, &r.DB) }),
		directive.Text("prefix", "<string>", &r.Prefix),
		directive.Duration("timeout", &r.Timeout),
		directive.Count("pool_size", "<n>", &r.PoolSize),
	}
}

func redisTLS(t *config.RedisTLS) directive.Table {
	return directive.Table{
		directive.Text("ca", "<file>", &t.CA),
		directive.Text("cert", "<file>", &t.Cert),
		directive.Text("key", "<file>", &t.Key),
		directive.Text("server_name", "<name>", &t.ServerName),
	}
}
