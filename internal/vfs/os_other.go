//go:build !linux

package vfs

import "errors"

// Space is for Linux alone.
func (osFS) Space(string) (Space, error) { return Space{}, errors.ErrUnsupported }

// SyncData is a full sync where there is no fdatasync.
func (f osFile) SyncData() error { return f.Sync() }

// SyncPaced is a full sync too.
func (f osFile) SyncPaced() error { return f.Sync() }

// Preallocate only grows the file.
func (f osFile) Preallocate(size int64) error {
	old, err := f.Size()
	if err != nil || old >= size {
		return err
	}
	return f.Truncate(size)
}
