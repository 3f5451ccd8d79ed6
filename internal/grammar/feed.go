package grammar

import (
	"fmt"

	"github.com/weirhq/caddy-weir/internal/config"
	"github.com/weirhq/caddy-weir/internal/directive"
)

// feed holds what a zone's feed block may say.
func feed(f *config.Feed) directive.Table {
	return directive.Table{
		feedRate("conditional", &f.Conditional),
		feedRate("unconditional", &f.Unconditional),
		directive.Texts("parameters", "<name...>", &f.Parameters),
		directive.Many(directive.Args("alias", "<path> <path...>", 2, -1, func(args []string) error {
			f.Aliases = append(f.Aliases, args)
			return nil
		})),
		directive.Args("over", overUsage, 1, 2, func(args []string) error { return readOver(f, args) }),
		directive.Flag("strict", &f.Strict),
		directive.Args("stale", staleUsage, 1, 3, func(args []string) error { return readStale(f, args) }),
		directive.Duration("max_age", &f.MaxAge),
		directive.Duration("max_wait", &f.MaxWait),
		directive.Flag("ignore_hints", &f.IgnoreHints),
		directive.Flag("by_bytes", &f.ByBytes),
		directive.Args("escalate", "[<factor>]", 0, 1, func(args []string) error {
			if f.Escalate = config.DefaultEscalate; len(args) == 0 {
				return nil
			}
			return directive.Whole(args[0], 2, &f.Escalate)
		}),
		directive.Nested("people", "", 0, crowd(new(config.People)), func(body *directive.Body) error {
			f.People = new(config.People)
			return body.Read(crowd(f.People))
		}),
		directive.Nested("aggregators", "", 0, aggregators(new(config.Aggregators)), func(body *directive.Body) error {
			f.Aggregators = new(config.Aggregators)
			return body.Read(aggregators(f.Aggregators))
		}),
	}
}

// feedRate is an option with one of a feed's budgets.
func feedRate(name string, into *config.FeedRate) directive.Option {
	const usage = "<rate> [burst <n>]"
	return directive.Args(name, usage, 1, 3, func(args []string) (err error) {
		if into.Events, into.Window, err = directive.Rate(args[0]); err != nil {
			return err
		}
		switch {
		case len(args) == 1:
			return nil
		case len(args) == 3 && args[1] == "burst":
			if err := directive.Whole(args[2], 1, &into.Burst); err != nil {
				return fmt.Errorf("burst: %w", err)
			}
			return nil
		}
		return fmt.Errorf("%q does not fit, write %q", args[1], name+" "+usage)
	})
}

const staleUsage = "<duration> [memory <size>]"

// readStale reads for how long copies take the place of errors, and how much they may take.
func readStale(f *config.Feed, args []string) error {
	switch {
	case len(args) == 3 && args[1] == "memory":
		if err := directive.Bytes(args[2], &f.StaleMemory); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	case len(args) > 1:
		return fmt.Errorf("%q does not fit, write %q", args[1], "stale "+staleUsage)
	}
	return directive.Span(args[0], &f.Stale)
}

const overUsage = "refuse|not_modified|announce <duration>|explain [<refusals>]"

// readOver reads what a reader over budget gets.
func readOver(f *config.Feed, args []string) error {
	if err := directive.Choose(args[0], config.OversOfFeed); err != nil {
		return err
	}
	f.Over = args[0]
	switch {
	case len(args) == 2 && f.Over == "announce":
		return directive.Span(args[1], &f.Announce)
	case len(args) == 2 && f.Over == "explain":
		return directive.Whole(args[1], 1, &f.ExplainAfter)
	case len(args) == 2 || f.Over == "announce":
		return fmt.Errorf("%q does not fit, write %q", args[len(args)-1], "over "+overUsage)
	}
	return nil
}
