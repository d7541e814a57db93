package dir

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// List walks the folders in ascending order of keys. It leaves out what another process removes meanwhile.
func (s *Store) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		l := lister{store: s, opts: opts, yield: yield}
		start := "" // the deepest folder that holds all keys with the prefix
		if i := strings.LastIndexByte(opts.Prefix, '/'); i >= 0 {
			start = opts.Prefix[:i+1]
			if objstore.CheckKey(opts.Prefix[:i]) != nil {
				return // no key looks like that
			}
		}
		l.walk(ctx, start)
	}
}

type lister struct {
	store *Store
	opts  objstore.ListOptions
	yield func(objstore.Info, error) bool
}

// walk lists one folder, given as "" or with a slash at its end. It returns false when the caller has enough.
func (l *lister) walk(ctx context.Context, folder string) bool {
	if err := ctx.Err(); err != nil {
		l.yield(objstore.Info{}, err)
		return false
	}
	entries, err := l.store.cfg.FS.ReadDir(filepath.Join(l.store.cfg.Root, filepath.FromSlash(folder)))
	if err != nil {
		if err = readError("list", folder, err); errors.Is(err, objstore.ErrNotFound) {
			return true
		}
		l.yield(objstore.Info{}, err)
		return false
	}
	items := make([]item, 0, len(entries))
	for _, e := range entries {
		it := item{key: folder + e.Name(), entry: e}
		if it.key == tempDir || l.opts.NoLinks && e.Type()&fs.ModeSymlink != 0 {
			continue
		}
		if it.isDir(l.store) {
			it.key += "/" // so that it sorts as the keys in it do
		}
		if l.wants(it.key) {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	for _, it := range items {
		if strings.HasSuffix(it.key, "/") {
			if !l.walk(ctx, it.key) {
				return false
			}
		} else if !l.emit(it) {
			return false
		}
	}
	return true
}

// wants says whether key is in the listing, or for a folder whether a key in it can be.
func (l *lister) wants(key string) bool {
	if !strings.HasSuffix(key, "/") {
		return l.opts.Match(key)
	}
	if len(key) <= len(l.opts.Prefix) {
		return strings.HasPrefix(l.opts.Prefix, key)
	}
	below := strings.HasPrefix(key, l.opts.Prefix) && !l.opts.Flat
	return below && (key > l.opts.StartAfter || strings.HasPrefix(l.opts.StartAfter, key))
}

func (l *lister) emit(it item) bool {
	info, err := it.info(l.store)
	if err != nil {
		if err = readError("list", it.key, err); errors.Is(err, objstore.ErrNotFound) {
			return true
		}
		l.yield(objstore.Info{}, err)
		return false
	}
	return l.yield(objstore.Info{Key: it.key, Size: info.Size(), ModTime: info.ModTime()}, nil)
}

type item struct {
	key   string
	entry fs.DirEntry
}

// isDir follows a symbolic link, so that a linked folder is listed as it is read.
func (it item) isDir(s *Store) bool {
	if it.entry.Type()&fs.ModeSymlink == 0 {
		return it.entry.IsDir()
	}
	info, err := it.info(s)
	return err == nil && info.IsDir()
}

func (it item) info(s *Store) (fs.FileInfo, error) {
	if it.entry.Type()&fs.ModeSymlink != 0 {
		return s.cfg.FS.Stat(filepath.Join(s.cfg.Root, filepath.FromSlash(it.key)))
	}
	return it.entry.Info()
}
