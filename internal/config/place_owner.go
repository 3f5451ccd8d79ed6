//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checkOwner refuses the file of another user: what is written anew would then be ours, and the
// server could no longer read its own list.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if us := os.Geteuid(); ok && int(stat.Uid) != us {
		return fmt.Errorf("%s belongs to the user of id %d, and this one has %d: run it as that user, such as by sudo -u", path, stat.Uid, us)
	}
	return nil
}
