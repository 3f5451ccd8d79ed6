package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/weirhq/caddy-weir/internal/admin"
)

// exit ends a command with a code. It says what is wrong, so that nobody else does.
func exit(cmd *cobra.Command, code int, err error) error {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err != nil {
		if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
			said := map[string]any{"error": err.Error()}
			var after *previewedError
			if errors.As(err, &after) {
				said["preview"] = after.preview
			}
			text, _ := json.Marshal(said) // strings and numbers always can be
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
		} else {
			fmt.Fprintln(cmd.ErrOrStderr(), "Error: "+err.Error())
		}
	}
	switch code {
	case done:
		return nil
	case no:
		return errors.New("refused") // Caddy ends with 1 for any error
	}
	// Caddy takes other codes only from its own commands.
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, nil)
}

// fail ends a command by what went wrong.
func fail(cmd *cobra.Command, err error) error {
	if errors.Is(err, admin.ErrDanger) {
		hint := strings.ReplaceAll(err.Error(), admin.ErrDanger.Error(), "with --force it is done all the same")
		var after *previewedError
		if errors.As(err, &after) {
			return exit(cmd, no, previewed(errors.New(hint), after.preview))
		}
		return exit(cmd, no, errors.New(hint))
	}
	var away *admin.AwayError
	if errors.As(err, &away) && cmd.Flags().Lookup("direct") != nil {
		err = fmt.Errorf("%w\n(--direct, --redis and --file reach the list without Caddy, see --help)", err)
	}
	return exit(cmd, trouble, err)
}

// usage makes a wrong command line end like any other trouble.
func usage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit(cmd, trouble, fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath()))
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return exit(cmd, trouble, fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath()))
			}
			return nil
		}
	}
}

// unknownVerb says which verbs there are.
func unknownVerb(cmd *cobra.Command, word string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	hint := ""
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		hint = fmt.Sprintf(", did you mean %q?", near[0])
	}
	return fmt.Errorf("unknown verb %q%s (known here: %s)", word, hint, strings.Join(known, ", "))
}
