package source

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
)

// DefaultMaxCover is how much a list covers at most: as much as so many of the widest networks that are
// given to one owner, /8 of IPv4 and /19 of IPv6. That is 6 % of all IPv4 addresses; what a large country
// has is more.
const DefaultMaxCover = 16

// AnyCover is a most that no list covers too much for: all there is of IPv4, and whatever of IPv6.
const AnyCover = 256

// cover is how many addresses there are in ranges, of each family in units of the widest network that
// is given to one owner.
type cover struct{ v4, v6 float64 }

// usual is a cover that nobody has to ask for: that of one such network.
const usual = 1

// unit is the length of such a network.
func unit(is4 bool) int {
	if is4 {
		return 8
	}
	return 19
}

// coverOf adds up ranges, which are sorted, each before those within it. Nothing counts twice.
func coverOf(prefixes []netip.Prefix) cover {
	var c cover
	var last netip.Prefix
	for _, p := range prefixes {
		if last.IsValid() && covers(last, p) {
			continue
		}
		last = p
		if p.Addr().Is4() {
			c.v4 += math.Ldexp(1, unit(true)-p.Bits())
		} else {
			c.v6 += math.Ldexp(1, unit(false)-p.Bits())
		}
	}
	return c
}

// judge says what is wrong with a list that covers so much and is to take the place of another, if there is one,
// which covered had. Each family is judged by itself.
func (c cover) judge(had cover, another bool, most int, mayGrow bool) error {
	if most == 0 {
		most = DefaultMaxCover
	}
	for _, f := range []struct {
		is4      bool
		now, had float64
	}{{true, c.v4, had.v4}, {false, c.v6, had.v6}} {
		switch name := family(f.is4); {
		case most < AnyCover && f.now > float64(most):
			return fmt.Errorf("covers as much of %s as %s networks of /%d, %s of all addresses, and at most %d are taken: raise max_cover if that is meant",
				name, number(f.now), unit(f.is4), percent(f.now, f.is4), most)
		case another && !mayGrow && f.now > usual && f.now > 2*f.had:
			return fmt.Errorf("covers as much of %s as %s networks of /%d, %s of all addresses, and covered %s before: it stays as it was; set accept_grown if that is meant",
				name, number(f.now), unit(f.is4), percent(f.now, f.is4), number(f.had))
		}
	}
	return nil
}

func family(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}

// number writes a number as precisely as it matters.
func number(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 0.01:
		return "less than 0.01"
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

// percent writes how much of all addresses of a family some networks are.
func percent(n float64, is4 bool) string { return number(math.Ldexp(100*n, -unit(is4))) + " %" }
