package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// save remembers what is durable in the blocks of [off, end) before they change for the first time.
func (n *node) save(off, end int64) {
	if n.old == nil {
		n.old = map[int64][]byte{}
	}
	for b := off / blockSize; b*blockSize < end; b++ {
		if _, ok := n.old[b]; ok {
			continue
		}
		lo := min(b*blockSize, int64(len(n.data)))
		hi := min((b+1)*blockSize, int64(len(n.data)))
		n.old[b] = append([]byte(nil), n.data[lo:hi]...)
	}
}

func (n *node) write(p []byte, off int64) {
	end := off + int64(len(p))
	n.save(min(off, int64(len(n.data))), end)
	n.grow(end)
	copy(n.data[off:], p)
	n.spans = append(n.spans, span{off, end})
	n.modified = time.Now()
}

func (n *node) grow(size int64) {
	if old := int64(len(n.data)); size > old {
		if size <= int64(cap(n.data)) {
			n.data = n.data[:size]
			clear(n.data[old:])
		} else {
			n.data = append(n.data, make([]byte, size-old)...)
		}
	}
}

func (n *node) truncate(size int64) {
	switch cur := int64(len(n.data)); {
	case size < cur:
		n.save(size, cur)
		n.data = n.data[:size]
	case size > cur:
		n.grow(size)
	}
	n.spans = append(n.spans, span{size, size})
	n.modified = time.Now()
}

func (n *node) sync() {
	n.syncedSize = int64(len(n.data))
	n.old, n.spans = nil, n.spans[:0]
}

// memFile is an open file of a Mem.
type memFile struct {
	m        *Mem
	n        *node
	name     string
	pos      int64
	readOnly bool
	closed   bool
}

func (f *memFile) check(op string, write bool) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if write && f.readOnly {
		return pathError(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, errors.New("negative offset"))
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, errors.New("negative offset"))
	}
	if end := off + int64(len(p)); f.m.fit(f.n, end) < end {
		fits := int(max(f.m.fit(f.n, end)-off, 0))
		if fits > 0 {
			f.n.write(p[:fits], off)
		}
		return fits, pathError("write", f.name, ErrNoSpace)
	}
	f.n.write(p, off)
	return len(p), nil
}

func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.n.truncate(size)
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("preallocate", true); err != nil {
		return err
	}
	if f.m.fit(f.n, size) < size {
		return pathError("preallocate", f.name, ErrNoSpace)
	}
	if size > int64(len(f.n.data)) {
		f.n.truncate(size)
	}
	return nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.n.sync()
	return nil
}

func (f *memFile) SyncData() error { return f.Sync() }

func (f *memFile) SyncPaced() error { return f.Sync() }

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), f.check("size", false)
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}
