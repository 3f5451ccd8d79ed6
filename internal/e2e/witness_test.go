package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func init() { caddy.RegisterModule(witness{}) }

// witness is a file system for Caddy that writes down what is opened or looked up in it:
//
//	filesystem <name> witness <folder> <log>
type witness struct {
	Folder string `json:"folder"`
	Log    string `json:"log"`
}

// CaddyModule describes the module to Caddy.
func (witness) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.fs.witness", New: func() caddy.Module { return new(witness) }}
}

// UnmarshalCaddyfile reads the module's words.
func (w *witness) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&w.Folder, &w.Log) {
		return d.ArgErr()
	}
	return nil
}

// Open opens a file.
func (w *witness) Open(name string) (fs.File, error) {
	return open(w, name, os.DirFS(w.Folder).Open)
}

// Stat looks a file up.
func (w *witness) Stat(name string) (fs.FileInfo, error) {
	return open(w, name, func(name string) (fs.FileInfo, error) { return fs.Stat(os.DirFS(w.Folder), name) })
}

func open[T any](w *witness, name string, do func(string) (T, error)) (result T, err error) {
	log, err := os.OpenFile(w.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return result, err
	}
	if _, err := fmt.Fprintln(log, name); err != nil {
		return result, errors.Join(err, log.Close())
	}
	if err := log.Close(); err != nil {
		return result, err
	}
	return do(name)
}

var (
	_ fs.StatFS             = (*witness)(nil)
	_ caddyfile.Unmarshaler = (*witness)(nil)
)
