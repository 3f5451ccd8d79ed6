// Command worker stands for a worker of background jobs: it takes the jobs of a queue, a file
// with a line each (handler, user, arguments), and asks before it runs them.
//
//	go run ./worker [-check http://localhost:8080/weir/check] queue
//
// If nobody answers, it runs the job: what watches over the work must not stop it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// A job is what the check is asked about.
type job struct {
	Source  string   `json:"source"`
	Handler string   `json:"handler"`
	User    string   `json:"user"`
	Args    []string `json:"args,omitempty"`
}

// An answer is what the check says: pass or drop, and of a dropped job what to do with it.
type answer struct {
	Verdict    string  `json:"verdict"`
	Rule       string  `json:"rule"`
	Dropped    string  `json:"dropped"`
	RetryAfter float64 `json:"retry_after"`
}

var client = &http.Client{Timeout: time.Second}

func main() {
	check := flag.String("check", "http://localhost:8080/weir/check", "where to ask")
	flag.Parse()
	log.SetFlags(0)
	if flag.NArg() != 1 {
		log.Fatal("usage: worker [-check <url>] <queue>")
	}
	queue := flag.Arg(0)
	lines, err := os.ReadFile(queue)
	if err != nil {
		log.Fatal(err)
	}
	var later, dead []string
	for line := range strings.Lines(string(lines)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		j := job{Source: "job", Handler: words[0], User: words[1], Args: words[2:]}
		a, err := ask(*check, &j)
		if err != nil {
			log.Printf("check: %v", err)
		}
		switch {
		case err != nil || a.Verdict == "pass":
			run(&j)
		case a.Dropped == "retry":
			log.Printf("later  %s, in %gs, by rule %s", j.Handler, a.RetryAfter, a.Rule)
			later = append(later, line)
		case a.Dropped == "dead_letter":
			log.Printf("aside  %s, by rule %s", j.Handler, a.Rule)
			dead = append(dead, line)
		default:
			log.Printf("drop   %s, by rule %s", j.Handler, a.Rule)
		}
	}
	if err := os.WriteFile(queue, []byte(strings.Join(later, "")), 0o600); err != nil {
		log.Fatal(err)
	}
	setAside(queue+".dead", dead)
}

// ask asks whether the job may run.
func ask(check string, j *job) (a answer, err error) {
	body, err := json.Marshal(j)
	if err != nil {
		return a, err
	}
	resp, err := client.Post(check, "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, fmt.Errorf("answers %s", resp.Status)
	}
	return a, json.NewDecoder(resp.Body).Decode(&a)
}

// run would do the work.
func run(j *job) { log.Printf("run    %s for %s %s", j.Handler, j.User, strings.Join(j.Args, " ")) }

// setAside adds jobs to those that people are to look at.
func setAside(path string, lines []string) {
	if len(lines) == 0 {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	_, err = f.WriteString(strings.Join(lines, ""))
	if err = errors.Join(err, f.Close()); err != nil {
		log.Fatal(err)
	}
}
