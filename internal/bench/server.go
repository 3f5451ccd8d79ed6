package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weirhq/caddy-weir/internal/bench/gauge"
)

// patience bounds every wait.
const patience = 20 * time.Second

// A server is a Caddy that runs.
type server struct {
	cmd   *exec.Cmd
	log   bytes.Buffer
	gone  chan struct{}
	url   string
	admin string
	sent  int // requests, to this server so far
}

// startServer runs a Caddy, which may speak to a Redis, and returns when it answers.
func startServer(ctx context.Context, b *bench, name, config, redis string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, name+".Caddyfile")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	v := &server{url: "http://127.0.0.1:" + port, admin: "127.0.0.1:" + admin, gone: make(chan struct{})}
	v.cmd = exec.CommandContext(ctx, b.caddy, "run", "--config", path, "--adapter", "caddyfile")
	v.cmd.Env = append(os.Environ(), role+"="+asCaddy, "HOME="+b.dir, "XDG_DATA_HOME="+b.dir, "XDG_CONFIG_HOME="+b.dir,
		"PORT="+port, "ADMIN="+v.admin, "SITE="+b.dir, "REDIS="+redis)
	v.cmd.Stderr = &v.log
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = v.cmd.Wait() // how it ended is of no interest
		close(v.gone)
	}()
	for end := time.Now().Add(patience); ; {
		resp, err := http.Get(v.url)
		if err == nil {
			resp.Body.Close()
			return v, nil
		}
		select {
		case <-v.gone:
			return nil, fmt.Errorf("the Caddy ended:\n%s", v.log.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			v.stop()
			return nil, fmt.Errorf("the Caddy does not answer:\n%s", v.log.Bytes())
		}
	}
}

// stop ends the server.
func (v *server) stop() {
	_ = v.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-v.gone:
	case <-time.After(patience):
		_ = v.cmd.Process.Kill()
		<-v.gone
	}
}

// cpu returns the time that the process has run so far.
func (v *server) cpu() (time.Duration, error) { return gauge.CPU(v.cmd.Process.Pid) }

// startProfile has the server write a CPU profile of that length to a file. The channel
// is closed when it is written, or could not be, which standard error tells.
func (v *server) startProfile(path string, length time.Duration) <-chan struct{} {
	done := make(chan struct{})
	seconds := max(1, int(length/time.Second))
	go func() {
		defer close(done)
		resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", v.admin, seconds))
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profile:", err)
		}
	}()
	return done
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
