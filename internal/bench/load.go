package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// A load is what wrk tells of one run.
type load struct {
	requests int
	refused  int // with a status other than 2xx or 3xx
}

var (
	sentLine    = regexp.MustCompile(`(\d+) requests in`)
	refusedLine = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	brokenLine  = regexp.MustCompile(`Socket errors:.*`)
)

// load has wrk ask the server for one run.
func (b *bench) load(ctx context.Context, v *server, s scene) (load, error) {
	args := []string{"-t", "2", "-c", strconv.Itoa(b.connections), "-d", fmt.Sprintf("%ds", max(1, int(b.length.Seconds())))}
	if script := s.script(); script != "" {
		path := filepath.Join(b.dir, "clients.lua")
		if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
			return load{}, err
		}
		args = append(args, "-s", path)
	}
	// The clients go on where those of the last run ended.
	args = append(args, v.url+"/", strconv.Itoa(v.sent/2))
	out, err := exec.CommandContext(ctx, "wrk", args...).CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	l, err := readLoad(string(out))
	v.sent += l.requests
	return l, err
}

// readLoad reads wrk's report.
func readLoad(report string) (load, error) {
	if broken := brokenLine.FindString(report); broken != "" {
		return load{}, fmt.Errorf("wrk: %s", broken)
	}
	l := load{requests: number(sentLine, report), refused: number(refusedLine, report)}
	if l.requests == 0 {
		return l, fmt.Errorf("wrk sent nothing:\n%s", report)
	}
	return l, nil
}

func number(line *regexp.Regexp, report string) int {
	m := line.FindStringSubmatch(report)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // the expression matches digits only
	return n
}
