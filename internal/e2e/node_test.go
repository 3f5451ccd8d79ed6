package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"
)

// patience bounds every wait for something that is bound to come.
const patience = 30 * time.Second

// A node is one running Caddy.
type node struct {
	name string
	dir  string   // where it runs
	env  []string // of its process and of those that reload it
	log  string   // the file that takes its standard error
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended

	ended bool // by the story
}

// startNode runs a Caddy in dir and returns when it serves config.
func startNode(dir, name, config string, env []string) (*node, error) {
	home := filepath.Join(dir, "."+name)
	n := &node{
		name: name, dir: dir, log: filepath.Join(dir, name+".log"), gone: make(chan struct{}),
		env: append(env[:len(env):len(env)],
			"HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home,
			"GORACE=halt_on_error=1"),
	}
	log, err := os.Create(n.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	n.cmd = n.command("run", "--config", config, "--adapter", adapter(config))
	n.cmd.Stderr = log
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = n.cmd.Wait() // how it ended is told by its log
		close(n.gone)
	}()
	if err := n.waitLog("serving initial configuration"); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

// adapter names the config adapter of a file, by its ending.
func adapter(config string) string {
	if filepath.Ext(config) == ".json" {
		return ""
	}
	return "caddyfile"
}

func (n *node) command(args ...string) *exec.Cmd {
	path := "caddy"
	if *shipped != "" {
		path = *shipped
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = n.dir, n.env
	return cmd
}

// reload gives the node another configuration.
func (n *node) reload(config string) error {
	cmd := n.command("reload", "--config", config, "--adapter", adapter(config))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("reload of %s: %w\n%s", n.name, err, out)
	}
	return nil
}

// waitLog waits until the node has logged what the pattern matches.
func (n *node) waitLog(pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	ended := false
	seen := poll(func() bool {
		select {
		case <-n.gone:
			ended = true
		default:
		}
		text, _ := os.ReadFile(n.log)
		return re.Match(text) || ended
	})
	text, err := os.ReadFile(n.log)
	switch {
	case err != nil:
		return err
	case re.Match(text):
		return nil
	case ended:
		return fmt.Errorf("%s ended without having logged %q:\n%s", n.name, pattern, text)
	case !seen:
		return fmt.Errorf("%s has not logged %q:\n%s", n.name, pattern, text)
	}
	return nil
}

// stop ends the node and says what it did that no story allows: a panic, a data race, a
// process that ended by itself or would not end.
func (n *node) stop() error {
	var problem error
	select {
	case <-n.gone:
		if !n.ended {
			problem = errors.New("ended by itself")
		}
	default:
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-n.gone:
	case <-time.After(patience):
		problem = errors.New("would not end")
		_ = n.cmd.Process.Kill()
		<-n.gone
	}
	text, err := os.ReadFile(n.log)
	if err != nil {
		return err
	}
	for _, bad := range []string{"DATA RACE", "panic", "fatal error"} {
		if bytes.Contains(text, []byte(bad)) {
			problem = fmt.Errorf("logged a %s", bad)
		}
	}
	if problem != nil {
		return fmt.Errorf("%s: %w:\n%s", n.name, problem, text)
	}
	return nil
}

// kill ends the node as a power cut does.
func (n *node) kill() {
	n.ended = true
	_ = n.cmd.Process.Kill()
	<-n.gone
}

// poll calls done, every few milliseconds, until it returns true or patience ends. It
// reports whether it did.
func poll(done func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		if done() {
			return true
		}
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
}

// lastPort is the port that was handed out last. They lie below those that systems give
// to outgoing connections, and begin at a place that depends on the process.
var lastPort atomic.Int64

func init() { lastPort.Store(int64(12000 + os.Getpid()%150*100)) }

// freePort returns a loopback port that nobody listens on and no other story gets.
func freePort() (string, error) {
	for range 1000 {
		port := fmt.Sprint(lastPort.Add(1))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return "", errors.New("no free port")
}
