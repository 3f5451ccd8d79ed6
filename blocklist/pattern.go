package blocklist

// A Pattern is a glob by itself, outside of any rule: only * is special, stands for any bytes or
// none, and the whole text has to fit. Upper and lower case differ. It is safe for concurrent
// use; the zero value fits nothing.
type Pattern struct{ glob *glob }

// ParsePattern compiles a pattern of at most MaxPattern bytes and MaxStars stars.
func ParsePattern(text string) (Pattern, error) {
	g, err := newGlob(text, false)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{g}, nil
}

// Match reports whether the text fits.
func (p Pattern) Match(text []byte) bool { return p.glob != nil && p.glob.match(text) }

// Any reports whether every text fits.
func (p Pattern) Any() bool { return p.glob != nil && p.glob.any() }
