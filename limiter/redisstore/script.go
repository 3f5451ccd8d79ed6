package redisstore

import (
	"crypto/sha1" // by which Redis names scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/weirhq/caddy-weir/limiter/algorithm"
)

var (
	//go:embed prelude.lua
	preludeLua string
	//go:embed take.lua
	takeLua string
	//go:embed adjust.lua
	adjustLua string
	//go:embed lease.lua
	leaseLua string
	//go:embed clean.lua
	cleanLua string
)

// A script is a text that the server runs, and its name there.
type script struct {
	text, sha string
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// A set of algorithms has the bit 1<<i for kinds[i].
type set uint8

// scripts holds one kind of script for each set of algorithms, joined when first asked for.
// A script holds no more than its call needs, since all of it is run through each time.
type scripts [1 << len(kinds)]atomic.Pointer[script]

var (
	takeScripts   scripts
	adjustScripts scripts
	cleanScript   = newScript(cleanLua)
	leaseScript   = newScript(join(leaseLua, algorithm.Twin("in_flight", true)))
)

func takeScript(s set) *script {
	return takeScripts.get(s, func() string { return joinSet(s, takeLua, false, "peek", "spend") })
}

func adjustScript(s set) *script {
	return adjustScripts.get(s, func() string { return joinSet(s, adjustLua, true, "adjust") })
}

func (c *scripts) get(s set, text func() string) *script {
	if found := c[s].Load(); found != nil {
		return found
	}
	made := newScript(text())
	c[s].Store(made)
	return made
}

// joinSet joins a script that handles every algorithm of the set by those functions of
// its twin.
func joinSet(s set, body string, adjust bool, functions ...string) string {
	const mark = "-- CHOOSE "
	before, rest, _ := strings.Cut(body, mark)
	chosen, after, _ := strings.Cut(rest, "\n")
	indent := before[strings.LastIndexByte(before, '\n')+1:]

	var choose strings.Builder
	var twins []string
	for i, kind := range kinds {
		if s&(1<<i) == 0 {
			continue
		}
		var own []string
		for _, f := range functions {
			own = append(own, string(kind.letter)+"_"+f)
		}
		names := strings.Join(own, ", ")
		twins = append(twins, fmt.Sprintf("local %s\ndo\n%s\n%s = %s\nend\n",
			names, algorithm.Twin(kind.name, adjust), names, chosen))
		if bits.OnesCount8(uint8(s)) == 1 {
			fmt.Fprintf(&choose, "%s = %s\n", chosen, names)
			continue
		}
		word := "elseif"
		if choose.Len() == 0 {
			word = "if"
		}
		fmt.Fprintf(&choose, "%s algorithm == %d then %s = %s\n%s", word, kind.letter, chosen, names, indent)
	}
	if bits.OnesCount8(uint8(s)) > 1 {
		choose.WriteString("end\n")
	}
	return join(before+choose.String()+after, twins...)
}

// join puts the twins between the prelude and the body.
func join(body string, twins ...string) string {
	return preludeLua + "\n" + strings.Join(twins, "\n") + "\n" + body
}
