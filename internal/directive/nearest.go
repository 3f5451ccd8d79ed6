package directive

// nearest returns the word that was probably meant, or "" if none is close: at most
// one slip of the finger, two in words of five letters and more.
func nearest(word string, words []string) string {
	best, least := "", 3
	for _, w := range words {
		allowed := 1
		if len(w) >= 5 {
			allowed = 2
		}
		if n := slips(word, w); n <= allowed && n < least {
			best, least = w, n
		}
	}
	return best
}

// slips counts the letters to insert, delete, replace or swap with their neighbour
// that turn a into b: the optimal string alignment distance.
func slips(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a) // far off, whatever it is: do not measure a long text
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
