package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
	"github.com/weirhq/caddy-weir/internal/config"
)

// test says what would become of a request.
func test() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [<url>]",
		Short: "Say whether a request would be refused, and why",
		Long: `Describes a request, a message or a job, and says what would become of it, and
what was looked at on the way. What is not said is absent: a rule that looks at it
does not match.

Asked of a running Caddy, the rules of its Caddyfile count too, as if the request
reached every block handler; of a job only those with its source. So do bans from
the zones of rate_limit whose requests it is one of, but no limits. Straight on
the list (--direct, --redis, --file) nothing but the list counts.

Exit codes: 0 it would pass; 1 it would be refused; 2 it could not be asked, or
the command line is wrong.`,
		Example: `  caddy weir block test https://example.com/wiki/Rain --client-ip 203.0.113.7
  caddy weir block test /feed.xml --user-agent 'Mozilla/5.0 (compatible; GPTBot/1.2)'
  caddy weir block test --source job --handler mail.send --user ann --args list`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.String("client-ip", "", "`address` of the client")
	f.String("user-agent", "", "`text` of the user agent")
	f.String("method", "", "`method`; default GET if there is a URL")
	f.StringArray("header", nil, "`'Name: value'` of a header")
	f.String("source", "", "`source`: http, websocket or job; default http with a URL, else job")
	f.String("message-type", "", "`type` of a WebSocket's message")
	f.String("user", "", "`name` of the user of a message or job")
	f.String("handler", "", "`name` of what runs a job")
	f.StringArray("args", nil, "`value` of an argument of a job")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := described(cmd, args)
		if err != nil {
			return exit(cmd, trouble, err)
		}
		return run(cmd, func(ctx context.Context, d door) error {
			v, err := d.Test(ctx, a)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				err = writeJSON(cmd, v)
			} else {
				err = writeVerdict(cmd.OutOrStdout(), &v, time.Now())
				writeWarnings(cmd, v.Warnings)
			}
			if err == nil && v.Outcome == admin.Refuse {
				return codeError(no)
			}
			return err
		})
	}
	return cmd
}

// described reads what the command line says of a request.
func described(cmd *cobra.Command, args []string) (config.Ask, error) {
	a := config.Ask{
		ClientIP: text(cmd, "client-ip"), UserAgent: text(cmd, "user-agent"), Method: text(cmd, "method"),
		Source: text(cmd, "source"), MessageType: text(cmd, "message-type"), User: text(cmd, "user"), Handler: text(cmd, "handler"),
	}
	a.Args, _ = cmd.Flags().GetStringArray("args")
	if len(args) == 1 {
		a.URL = args[0]
		if a.Method == "" {
			a.Method = "GET"
		}
	}
	headers, _ := cmd.Flags().GetStringArray("header")
	for _, line := range headers {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return a, fmt.Errorf("--header: must be written as 'Name: value', got %q", line)
		}
		if a.Header == nil {
			a.Header = make(map[string][]string)
		}
		a.Header[name] = append(a.Header[name], strings.TrimSpace(value))
	}
	return a, nil
}
