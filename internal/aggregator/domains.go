package aggregator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Domains are where the names of an aggregator's addresses lie. The zero value is none; they
// may be compared.
type Domains struct {
	list string // in order, each between spaces
}

// ParseDomains reads domains such as feedly.com or .feedly.com: the domain, and all below it. It
// must have two labels or more. The error joins all that are wrong.
func ParseDomains(texts []string) (Domains, error) {
	var all []string
	var problems []error
	for _, text := range texts {
		d := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(text, "."), "."))
		if err := checkDomain(d); err != nil {
			problems = append(problems, fmt.Errorf("%q: %w", text, err))
			continue
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return Domains{}, errors.Join(problems...)
	}
	slices.Sort(all)
	return Domains{" " + strings.Join(slices.Compact(all), " ") + " "}, errors.Join(problems...)
}

func checkDomain(d string) error {
	labels := strings.Split(d, ".")
	if len(labels) < 2 || len(d) > 253 {
		return errors.New("must be a domain of two labels or more, such as feedly.com")
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return errors.New("must be a domain, in ASCII, such as feedly.com")
		}
	}
	return nil
}

func (d Domains) empty() bool { return d.list == "" }

// holds reports whether a name as DNS has it lies in one of the domains.
func (d Domains) holds(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.Contains(name, " ") {
		return false
	}
	for {
		if strings.Contains(d.list, " "+name+" ") {
			return true
		}
		_, rest, below := strings.Cut(name, ".")
		if !below {
			return false
		}
		name = rest
	}
}

// rented are domains in which hosters name the addresses of whoever rents a machine.
var rented = []string{
	"amazonaws.com", "bc.googleusercontent.com", "cloudapp.azure.com", "contaboserver.net", "linodeusercontent.com",
	"members.linode.com", "ovh.net", "vultrusercontent.com", "your-server.de",
}

// Rented returns those domains in which anybody can rent an address: being named there proves
// nothing. Not all such domains are known.
func (d Domains) Rented() (found []string) {
	all, _ := ParseDomains(rented) // which are right
	for _, domain := range strings.Fields(d.list) {
		one := Domains{" " + domain + " "}
		if all.holds(domain) || slices.ContainsFunc(rented, one.holds) {
			found = append(found, domain)
		}
	}
	return found
}
