package config

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/caddy-weir/blocklist"
	"github.com/weirhq/caddy-weir/blocklist/filelist"
)

const (
	// copyEvery is how often the copy of a list is written at most.
	copyEvery = 2 * time.Second
	// copyShare is the most of the time that is spent on writing copies, as one part of so
	// many.
	copyShare = 20
	// copyRetry is after how long a copy that could not be written is tried again, at the latest.
	copyRetry = 30 * time.Second
)

// keepCopy writes what is in force to disk, when it changed, and once more at the end.
func (c *core) keepCopy(ctx context.Context) {
	for {
		next := c.state().nextChange
		took, ok := c.writeCopy()
		pause := time.NewTimer(max(copyEvery, copyShare*took))
		select {
		case <-ctx.Done():
			pause.Stop()
			c.writeCopy()
			return
		case <-pause.C:
		}
		var retry <-chan time.Time
		if !ok {
			retry = time.After(copyRetry)
		}
		select {
		case <-ctx.Done():
			c.writeCopy()
			return
		case <-next:
		case <-retry:
		}
	}
}

// writeCopy writes a copy if the list is another one than the last copy says, and returns how long
// that took, and whether there is a good copy.
func (c *core) writeCopy() (took time.Duration, ok bool) {
	s := c.state()
	if s.copyFault == nil && s.content.Version == c.copied.Version && s.content.Born == c.copied.Born {
		return 0, true
	}
	begun := time.Now()
	err := c.saveCopy(s.content)
	if err == nil {
		c.copied = s.content
	} else {
		err = fmt.Errorf("cannot be written: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copyTrouble = err
	for l := range c.lists {
		l.heardCopy(c, err)
	}
	return time.Since(begun), err == nil
}

// saveCopy writes a copy. One that could not be read is kept aside: it may be all that is left of a list,
// and somebody may be able to read it.
func (c *core) saveCopy(content blocklist.Content) error {
	if c.unreadable {
		_ = filelist.KeepBroken(c.copy) // or it is written over
	}
	err := filelist.Save(c.copy, content)
	c.unreadable = c.unreadable && err != nil
	return err
}

// restored is told that Redis had lost the list, and was given it back.
func (c *core) restored(content blocklist.Content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.lists {
		l.restored(content)
		return // each configuration would say the same
	}
}
