package main

import (
	"fmt"
	"slices"
)

// pairs holds the CPU time per request of both sides, in microseconds, pair by pair.
type pairs struct{ without, with []float64 }

// ratios returns what the module's side costs as a multiple of the other's.
func (p pairs) ratios() []float64 {
	all := make([]float64, len(p.with))
	for i := range all {
		all[i] = p.with[i] / p.without[i]
	}
	return all
}

// spread returns the least, the median and the most of some numbers.
func spread(all []float64) (least, median, most float64) {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]
}

func printHead() {
	fmt.Println("| scene | without | with | difference | ratio | of the least | goal |")
	fmt.Println("|---|---|---|---|---|---|---|")
}

func printRow(s scene, p pairs) {
	leastWithout, without, _ := spread(p.without)
	leastWith, with, _ := spread(p.with)
	differences := make([]float64, len(p.with))
	for i := range differences {
		differences[i] = p.with[i] - p.without[i]
	}
	_, difference, _ := spread(differences)
	least, median, most := spread(p.ratios())
	// What disturbs a run makes it dearer, so that the least of all runs says most on a busy
	// machine.
	fmt.Printf("| %s | %.1f | %.1f | %+.1f | %.3f [%.3f, %.3f] | %.3f | %.2f |\n",
		s.name, without, with, difference, median, least, most, leastWith/leastWithout, s.goal)
}
