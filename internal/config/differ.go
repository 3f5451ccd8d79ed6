package config

// Differs names the first field in which two zones of one name mean different things,
// "" if there is none. Plain is true if neither says anything that
// mholt/caddy-ratelimit does not know, where zones of one name may differ. What the app
// may say about prefixes is left out of account.
func (z *Zone) Differs(other *Zone) (field string, plain bool) {
	a, errA := definition(z, new(App))
	b, errB := definition(other, new(App))
	if errA != nil || errB != nil {
		return "", false // a zone that cannot be written as JSON is refused elsewhere
	}
	return difference(a, b), z.isPlain() && other.isPlain()
}
