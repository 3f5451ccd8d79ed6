package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// flags reads a verb's flags, wherever they stand, and returns its other words.
func flags(args []string, define func(f *flag.FlagSet)) ([]string, error) {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	define(f)
	var words []string
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			return words, nil
		}
		words, args = append(words, f.Arg(0)), f.Args()[1:]
	}
}

// start [-frozen] [-skew <duration>] <name> <config> [<variable>=<value>...]
//
// runs a Caddy until the script ends. With -frozen its clock moves only by the verb
// clock. $ADMIN_<name> becomes the address of its admin endpoint.
func (s *story) start(ts *testscript.TestScript, neg bool, args []string) error {
	frozen, skew := false, ""
	args, err := flags(args, func(f *flag.FlagSet) {
		f.BoolVar(&frozen, "frozen", false, "")
		f.StringVar(&skew, "skew", "", "")
	})
	if err != nil || neg || len(args) < 2 {
		return errors.Join(err, errors.New("usage: start [-frozen] [-skew <duration>] <name> <config> [<variable>=<value>...]"))
	}
	name, settings := args[0], args[2:]
	if s.nodes[name] != nil {
		return fmt.Errorf("%s runs already", name)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	env := slices.Concat(s.env, []string{"CADDY_ADMIN=127.0.0.1:" + port, clockSkew + "=" + skew}, settings)
	if !frozen {
		env = append(env, clockFile+"=")
	}
	n, err := startNode(s.dir, name, ts.MkAbs(args[1]), env)
	if err != nil {
		return err
	}
	s.nodes[name] = n
	ts.Setenv("ADMIN_"+name, "http://127.0.0.1:"+port)
	return nil
}

// node returns the running node of that name.
func (s *story) node(name string) (*node, error) {
	if n := s.nodes[name]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("no node %q runs", name)
}

// stop <name> ends a Caddy.
func (s *story) stopNode(_ *testscript.TestScript, neg bool, args []string) error {
	if neg || len(args) != 1 {
		return errors.New("usage: stop <name>")
	}
	n, err := s.node(args[0])
	if err != nil {
		return err
	}
	delete(s.nodes, args[0])
	return n.stop()
}

// [!] reload <name> <config> gives a Caddy another configuration, which it takes or not.
func (s *story) reload(ts *testscript.TestScript, neg bool, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: [!] reload <name> <config>")
	}
	n, err := s.node(args[0])
	if err != nil {
		return err
	}
	switch err := n.reload(ts.MkAbs(args[1])); {
	case neg && err == nil:
		return fmt.Errorf("%s took %s", args[0], args[1])
	case neg:
		_, err = fmt.Fprintln(ts.Stdout(), err)
		return err
	default:
		return err
	}
}

// log <name> <pattern> waits until a Caddy has logged what the pattern matches; ! log
// wants that it has not.
func (s *story) logged(_ *testscript.TestScript, neg bool, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: [!] log <name> <pattern>")
	}
	n, err := s.node(args[0])
	if err != nil {
		return err
	}
	if !neg {
		return n.waitLog(args[1])
	}
	re, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err
	}
	if found := re.Find(text); found != nil {
		return fmt.Errorf("%s logged %q", args[0], found)
	}
	return nil
}

// hammer [-n <count>] [-for <duration>] [-c <clients>] [-tick <duration>]
// [-within <duration>] [-H '<name>: <value>']... <url>...
//
// sends that many requests, or for that long, to the addresses in turn, and writes to
// stdout how many answers had which status ("200=10 429=90"). -tick moves the clock
// before each request but the first; -within wants every answer within that time.
func (s *story) hammer(ts *testscript.TestScript, neg bool, args []string) error {
	l, header := load{}, http.Header{}
	var tick, within, span time.Duration
	urls, err := flags(args, func(f *flag.FlagSet) {
		f.IntVar(&l.count, "n", 0, "")
		f.IntVar(&l.clients, "c", 1, "")
		f.DurationVar(&span, "for", 0, "")
		f.DurationVar(&tick, "tick", 0, "")
		f.DurationVar(&within, "within", patience, "")
		f.Func("H", "", func(line string) error { return addHeader(header, line) })
	})
	if err != nil || neg || len(urls) == 0 || (l.count == 0) == (span == 0) || (tick > 0 && l.clients > 1) {
		return errors.Join(err, errors.New("usage: hammer -n <count>|-for <duration> [-c <clients>] [-tick <duration>] [-within <duration>] [-H '<name>: <value>'] <url>..."))
	}
	l.urls = urls
	l.request = func(r *http.Request) { r.Header, r.Host = header.Clone(), header.Get("Host") }
	if span > 0 {
		stop := make(chan struct{})
		time.AfterFunc(span, func() { close(stop) })
		l.stop = stop
	}
	if tick > 0 {
		first := true
		l.before = func() error {
			if first {
				first = false
				return nil
			}
			return s.setClock(s.now + tick)
		}
	}
	shots, err := l.run()
	if err != nil {
		return err
	}
	if most := slowest(shots); most > within {
		return fmt.Errorf("an answer took %s, more than %s", most, within)
	}
	_, err = fmt.Fprintln(ts.Stdout(), tally(shots))
	return err
}

// clock +<duration> moves the clock of the nodes that were started with -frozen.
func (s *story) clock(_ *testscript.TestScript, neg bool, args []string) error {
	if neg || len(args) != 1 || !strings.HasPrefix(args[0], "+") {
		return errors.New("usage: clock +<duration>")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	return s.setClock(s.now + d)
}

// redis start|stop|kill|pause|resume commands the story's Redis; start starts anew one
// that runs.
//
// redis do <command> sends it a command and writes the reply to stdout; redis until
// <pattern> <command> sends it again until the reply matches.
func (s *story) redisServer(ts *testscript.TestScript, neg bool, args []string) error {
	usage := errors.New("usage: redis start|stop|kill|pause|resume | redis do <command> | redis until <pattern> <command>")
	if neg || len(args) == 0 {
		return usage
	}
	commands := map[string]func(){
		"start": s.redis.Restart, "stop": s.redis.Stop, "kill": s.redis.Kill,
		"pause": s.redis.Pause, "resume": s.redis.Resume,
	}
	switch command := commands[args[0]]; {
	case command != nil && len(args) == 1:
		command()
		return nil
	case args[0] == "do" && len(args) > 1:
		_, err := fmt.Fprintln(ts.Stdout(), s.redis.Do(strings.Join(args[1:], " ")))
		return err
	case args[0] == "until" && len(args) > 2:
		re, err := regexp.Compile(args[1])
		if err != nil {
			return err
		}
		reply := ""
		if poll(func() bool { reply = s.redis.Do(strings.Join(args[2:], " ")); return re.MatchString(reply) }) {
			return nil
		}
		return fmt.Errorf("%q was not matched by a reply; the last was %q", args[1], reply)
	}
	return usage
}
