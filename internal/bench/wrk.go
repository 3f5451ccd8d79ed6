package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// A load is what wrk tells of one run.
type load struct {
	requests int
	refused  int // with a status other than 2xx or 3xx
	rate     float64
	p50, p99 time.Duration
}

var (
	sentLine    = regexp.MustCompile(`(\d+) requests in`)
	refusedLine = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	brokenLine  = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+).*`)
	rateLine    = regexp.MustCompile(`Requests/sec: +([\d.]+)`)
	delayLine   = regexp.MustCompile(`(?m)^ +(50|99)% +([\d.]+[mun]?s)$`)
)

// load has wrk ask the server for one run.
func (b *bench) load(ctx context.Context, v *server, s *httpScene, length time.Duration) (load, error) {
	args := []string{"--latency", "-t", "2", "-c", strconv.Itoa(max(b.connections, 2)), "-d", fmt.Sprintf("%ds", max(1, int(length.Seconds())))}
	if s.close {
		args = append(args, "-H", "Connection: close")
	}
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
	// Timeouts are no errors: wrk counts requests that are open when it ends on a busy machine.
	if m := brokenLine.FindStringSubmatch(report); m != nil && !(m[1] == "0" && m[2] == "0" && m[3] == "0") {
		return load{}, fmt.Errorf("wrk: %s", m[0])
	}
	l := load{requests: found(sentLine, report), refused: found(refusedLine, report)}
	if l.requests == 0 {
		return l, fmt.Errorf("wrk sent nothing:\n%s", report)
	}
	if m := rateLine.FindStringSubmatch(report); m != nil {
		l.rate, _ = strconv.ParseFloat(m[1], 64) // 0 if it is none
	}
	for _, m := range delayLine.FindAllStringSubmatch(report, -1) {
		d, err := time.ParseDuration(m[2])
		if err != nil {
			return l, fmt.Errorf("wrk: %w", err)
		}
		if m[1] == "50" {
			l.p50 = d
		} else {
			l.p99 = d
		}
	}
	return l, nil
}

func found(line *regexp.Regexp, report string) int {
	m := line.FindStringSubmatch(report)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // the expression matches digits only
	return n
}
