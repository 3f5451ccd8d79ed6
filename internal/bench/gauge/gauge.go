// Package gauge measures: how long things take, how much processor time a process has used,
// and what many runs come to.
package gauge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CPU returns the time that all threads of a process have run so far, as the scheduler counts
// it. It needs Linux.
func CPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	var total int64
	read := 0
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that has just ended
		}
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		total += ns
		read++
	}
	if read == 0 {
		return 0, fmt.Errorf("the kernel tells no /proc/%d/task/*/schedstat: this needs Linux, and a process that runs", pid)
	}
	return time.Duration(total), nil
}

// A Spread is what many measurements of one thing come to.
type Spread struct{ Least, Median, Most float64 }

// Over returns the spread of some numbers; zeros if there are none.
func Over(all []float64) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return Spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

// Ratios divides two series, pair by pair. A pair that has a zero divisor is left out.
func Ratios(of, by []float64) []float64 {
	var all []float64
	for i := range min(len(of), len(by)) {
		if by[i] != 0 {
			all = append(all, of[i]/by[i])
		}
	}
	return all
}
