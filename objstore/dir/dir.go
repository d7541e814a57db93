// Package dir keeps objects as files under one folder, durably.
//
// An object is written to a temporary file in a hidden folder of the root, synced, and published by rename
// (Put, Create) or by hard link (PutIfAbsent, where the file system picks the one winner); then its folder is
// synced. A crash leaves an object whole or absent (I1); a temporary file that it left is in no listing and is
// removed when it is a day old. Several processes may share a root on one machine. Network file systems are
// right only where link and rename are atomic.
//
// Hadoop writers, such as Spark, may share the root: PutIfAbsent is acknowledged only when none of them can
// replace the object any more. The checksum .NAME.crc that they keep beside a file NAME is removed when NAME is
// published anew.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// tempDir holds what is not published yet. Delta readers and vacuum pass over names that begin with a dot.
const tempDir = ".ledgerlake-tmp"

// Config of a store.
type Config struct {
	Root    string           // folder; made at the first write
	FS      vfs.FS           // required
	TempAge time.Duration    // temporary files of this age are leftovers; default 24 h
	Now     func() time.Time // default time.Now
	// HadoopWait is how long PutIfAbsent waits for a Hadoop writer that is about to publish the same object;
	// then the outcome is unknown. Default 30 s.
	HadoopWait time.Duration
}

// Store is an object store in a folder.
type Store struct {
	cfg    Config
	prefix string // of temporary names, unique to this store
	seq    atomic.Int64

	hadoopSeen atomic.Bool // there are traces of a Hadoop writer

	mu    sync.Mutex
	known map[string]bool // folders that exist durably
}

var _ objstore.Store = (*Store)(nil)

// Open gives the store of a folder. It touches nothing: a folder that is not there is an empty store.
func Open(cfg Config) (*Store, error) {
	if cfg.Root == "" {
		return nil, errors.New("open folder store: no folder is given")
	}
	if cfg.FS == nil {
		return nil, errors.New("open folder store: Config.FS is needed")
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open folder store %s: %w", cfg.Root, err)
	}
	cfg.Root = root
	if cfg.TempAge == 0 {
		cfg.TempAge = 24 * time.Hour
	}
	if cfg.HadoopWait == 0 {
		cfg.HadoopWait = 30 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if info, err := cfg.FS.Stat(root); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("open folder store: %s is a file, not a folder", root)
	}
	return &Store{cfg: cfg, prefix: uuid.NewString(), known: map[string]bool{}}, nil
}

// URL is the absolute path of the root.
func (s *Store) URL() string { return s.cfg.Root }

// path gives the file of a key; a checked key cannot leave the root.
func (s *Store) path(key string) (string, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	if key == tempDir || strings.HasPrefix(key, tempDir+"/") {
		return "", fmt.Errorf("%w %q: %s is kept for temporary files", objstore.ErrInvalidKey, key, tempDir)
	}
	return filepath.Join(s.cfg.Root, filepath.FromSlash(key)), nil
}

// readError maps what a missing object looks like on a file system.
func readError(verb, key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		return fmt.Errorf("%s %s: %w", verb, key, objstore.ErrNotFound)
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}

// Get reads the whole object.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	return s.read(ctx, key, 0, -1, nil)
}

// GetRange reads length bytes at off.
func (s *Store) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	if off < 0 || length < 0 {
		return nil, fmt.Errorf("get %s: bytes [%d, %d+%d): %w", key, off, off, length, io.ErrUnexpectedEOF)
	}
	return s.read(ctx, key, off, length, nil)
}

// read reads length bytes at off, or all of them when length is negative, into into's memory where they have room there.
func (s *Store) read(ctx context.Context, key string, off, length int64, into []byte) (_ []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := s.path(key)
	if err != nil {
		return nil, err
	}
	if info, err := s.cfg.FS.Stat(name); err != nil {
		return nil, readError("get", key, err)
	} else if info.IsDir() {
		return nil, readError("get", key, fs.ErrNotExist)
	}
	f, err := s.cfg.FS.OpenRead(name)
	if err != nil {
		return nil, readError("get", key, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, readError("get", key, err)
	}
	if length < 0 {
		length = size - off
	}
	if off > size || length > size-off {
		return nil, fmt.Errorf("get %s: bytes [%d, %d+%d) of %d: %w", key, off, off, length, size, io.ErrUnexpectedEOF)
	}
	if int64(cap(into)) < length {
		into = make([]byte, length)
	}
	buf := into[:length]
	if n, err := f.ReadAt(buf, off); n < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return buf, nil
}

// Head describes the object.
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, err
	}
	name, err := s.path(key)
	if err != nil {
		return objstore.Info{}, err
	}
	info, err := s.cfg.FS.Stat(name)
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return objstore.Info{}, readError("head", key, err)
	}
	return objstore.Info{Key: key, Size: info.Size(), ModTime: info.ModTime()}, nil
}

// Delete removes key if it is there.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := s.path(key)
	if err != nil {
		return err
	}
	info, err := s.cfg.FS.Stat(name)
	if err == nil && !info.IsDir() {
		err = s.cfg.FS.Remove(name)
	}
	if err != nil && !errors.Is(readError("", key, err), objstore.ErrNotFound) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}
