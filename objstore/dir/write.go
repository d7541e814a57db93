package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// Put publishes data, replacing what is there.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	w, err := s.create(ctx, key)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// PutIfAbsent publishes data unless key exists. The link makes the one winner.
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	name, err := s.path(key)
	if err != nil {
		return err
	}
	if info, err := s.cfg.FS.Stat(name); err == nil {
		if info.IsDir() {
			return fmt.Errorf("put %s: a folder has this name", key)
		}
		return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	}
	w, err := s.create(ctx, key)
	if err != nil {
		return err
	}
	defer func() { _ = w.Abort() }() // a leftover is no failure: it is invisible and removed later
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.finish(); err != nil {
		return err
	}
	if s.hadoopSeen.Load() { // not needed for being right, but others need not see ours come and go
		if _, err := s.awaitHadoop(ctx, name); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
	}
	if err := errors.Join(ctx.Err(), s.dropChecksum(name)); err != nil {
		return err
	}
	if err := s.cfg.FS.Link(w.temp, name); err != nil {
		return linkError(key, err)
	}
	if err := s.cfg.FS.SyncDir(filepath.Dir(name)); err != nil {
		// It is there, and others may have seen it; whether it survives a crash is not known.
		return fmt.Errorf("put %s: %w: %w: %w", key, objstore.ErrUnknownOutcome, objstore.ErrNotFinal, err)
	}
	return s.confirm(ctx, key, name, data)
}

func linkError(key string, err error) error {
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.EMLINK):
		return fmt.Errorf("put %s: the file system cannot make hard links, which versions of a table need: %w", key, err)
	case errors.Is(err, fs.ErrNotExist), vfs.NoSpace(err), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("put %s: %w", key, err)
	}
	return fmt.Errorf("put %s: %w: %w: %w", key, objstore.ErrUnknownOutcome, objstore.ErrNotFinal, err) // not synced nor confirmed
}

// Create starts a new object of unknown size.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	return s.create(ctx, key)
}

func (s *Store) create(ctx context.Context, key string) (*writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := s.path(key)
	if err != nil {
		return nil, err
	}
	if err := s.ensureDirs(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("create %s: %w", key, err)
	}
	temp := filepath.Join(s.cfg.Root, tempDir, fmt.Sprintf("%s-%d", s.prefix, s.seq.Add(1)))
	f, err := s.cfg.FS.Create(temp)
	if errors.Is(err, fs.ErrNotExist) { // someone removed the folder after we had made it
		s.forgetDirs()
		if err = s.ensureDirs(filepath.Dir(name)); err == nil {
			f, err = s.cfg.FS.Create(temp)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", key, err)
	}
	return &writer{ctx: ctx, store: s, key: key, name: name, temp: temp, file: f}, nil
}

type writer struct {
	ctx   context.Context //nolint:containedctx // Close has no other way to get it
	store *Store
	key   string
	name  string
	temp  string
	file  vfs.File // nil after finish
	done  bool
	err   error // the first failure; nothing can be published after it
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil || w.file == nil {
		return 0, errors.Join(w.err, fmt.Errorf("write %s: the writer is not open", w.key))
	}
	n, err := w.file.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("write %s: %w", w.key, err)
	}
	return n, w.err
}

// finish makes the temporary file durable.
func (w *writer) finish() error {
	if w.err != nil {
		return w.err
	}
	f := w.file
	w.file = nil
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		w.err = fmt.Errorf("write %s: %w", w.key, err)
	}
	return w.err
}

// Close publishes the object; on failure nothing stays behind.
func (w *writer) Close() error {
	if w.done {
		return fmt.Errorf("close %s: the writer is closed", w.key)
	}
	err := w.finish()
	if err == nil {
		err = w.ctx.Err()
	}
	if err == nil {
		err = w.store.dropChecksum(w.name)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.store.cfg.FS.Rename(w.temp, w.name); err != nil {
		return errors.Join(fmt.Errorf("publish %s: %w", w.key, err), w.Abort())
	}
	w.done = true
	if err := w.store.cfg.FS.SyncDir(filepath.Dir(w.name)); err != nil {
		return fmt.Errorf("publish %s: %w: %w", w.key, objstore.ErrUnknownOutcome, err)
	}
	return nil
}

// Abort removes the temporary file. It may be called again.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	if rmErr := w.store.cfg.FS.Remove(w.temp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	if err != nil {
		return fmt.Errorf("abort %s: %w", w.key, err)
	}
	return nil
}

// ensureDirs makes dir and the folder of temporary files, durably, once a process.
func (s *Store) ensureDirs(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	temp := filepath.Join(s.cfg.Root, tempDir)
	if !s.known[temp] {
		if err := s.makeDir(temp); err != nil {
			return err
		}
		s.removeLeftovers(temp)
	}
	if s.known[dir] {
		return nil
	}
	return s.makeDir(dir)
}

func (s *Store) forgetDirs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// makeDir makes dir and syncs every folder that got, or may have got from another process just now, a new
// entry: all from dir up to the root, and those above it that were missing.
func (s *Store) makeDir(dir string) error {
	var parents []string
	for d := dir; ; d = filepath.Dir(d) {
		_, err := s.cfg.FS.Stat(d)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		inRoot := d == s.cfg.Root || strings.HasPrefix(d, s.cfg.Root+string(filepath.Separator))
		if err == nil && !inRoot || d == filepath.Dir(d) {
			break
		}
		if err == nil && d == s.cfg.Root && len(parents) == 0 {
			break
		}
		parents = append(parents, filepath.Dir(d))
	}
	if err := s.cfg.FS.MkdirAll(dir); err != nil {
		return err
	}
	for _, p := range parents {
		if err := s.cfg.FS.SyncDir(p); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err // a parent of the root that we may not open was there before
		}
	}
	s.known[dir] = true
	return nil
}

// removeLeftovers removes temporary files of processes that died long ago. It is best effort.
func (s *Store) removeLeftovers(temp string) {
	entries, err := s.cfg.FS.ReadDir(temp)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && !info.IsDir() && s.cfg.Now().Sub(info.ModTime()) >= s.cfg.TempAge {
			_ = s.cfg.FS.Remove(filepath.Join(temp, e.Name())) // another process may have been faster
		}
	}
}
