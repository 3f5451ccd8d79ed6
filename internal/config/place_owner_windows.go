package config

import "io/fs"

// checkOwner has nothing to check: files there belong to whoever may write to their folder.
func checkOwner(string, fs.FileInfo) error { return nil }
