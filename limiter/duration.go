package limiter

import (
	"strconv"
	"strings"
	"time"
)

// ShortDuration writes a duration for people, as short as Caddy reads it: 1m, 1h30m, 366d.
func ShortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 0 {
		return d.String() // an error, which is shown as it stands
	}
	days := ""
	if d >= day {
		days = strconv.FormatInt(int64(d/day), 10) + "d"
		if d %= day; d == 0 {
			return days
		}
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return days + text
}
