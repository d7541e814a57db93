package deltalog

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// fakeStore is an object store in memory whose operations a test can fail. fail is called before an operation
// takes effect and after it; what it returns is the operation's error.
type fakeStore struct {
	mu      sync.Mutex
	objects map[string][]byte
	times   map[string]time.Time
	now     time.Time
	before  func(op, key string) error
	after   func(op, key string) error
}

func newFake() *fakeStore {
	return &fakeStore{objects: map[string][]byte{}, times: map[string]time.Time{}, now: time.UnixMilli(1_700_000_000_000)}
}

func (f *fakeStore) hook(h func(op, key string) error, op, key string) error {
	if h == nil {
		return nil
	}
	return h(op, key)
}

func (f *fakeStore) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.hook(f.before, "get", key); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.objects[key]
	if !ok {
		return nil, objstore.ErrNotFound
	}
	return bytes.Clone(b), ctx.Err()
}

func (f *fakeStore) GetRange(ctx context.Context, key string, off, length int64) ([]byte, error) {
	b, err := f.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if off+length > int64(len(b)) {
		return nil, io.ErrUnexpectedEOF
	}
	return b[off : off+length], nil
}

func (f *fakeStore) Head(ctx context.Context, key string) (objstore.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.objects[key]
	if !ok {
		return objstore.Info{}, objstore.ErrNotFound
	}
	return objstore.Info{Key: key, Size: int64(len(b)), ModTime: f.times[key]}, nil
}

func (f *fakeStore) Put(ctx context.Context, key string, data []byte) error {
	if err := f.hook(f.before, "put", key); err != nil {
		return err
	}
	f.set(key, data)
	return f.hook(f.after, "put", key)
}

func (f *fakeStore) set(key string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(time.Second)
	f.objects[key], f.times[key] = bytes.Clone(data), f.now
}

func (f *fakeStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if err := f.hook(f.before, "putIfAbsent", key); err != nil {
		return err
	}
	f.mu.Lock()
	if _, ok := f.objects[key]; ok {
		f.mu.Unlock()
		return objstore.ErrExists
	}
	f.now = f.now.Add(time.Second)
	f.objects[key], f.times[key] = bytes.Clone(data), f.now
	f.mu.Unlock()
	return f.hook(f.after, "putIfAbsent", key)
}

func (f *fakeStore) Create(ctx context.Context, key string) (objstore.Writer, error) {
	panic("not used")
}

func (f *fakeStore) List(ctx context.Context, o objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		if err := f.hook(f.before, "list", o.Prefix); err != nil {
			yield(objstore.Info{}, err)
			return
		}
		f.mu.Lock()
		var infos []objstore.Info
		for k, b := range f.objects {
			if strings.HasPrefix(k, o.Prefix) && k > o.StartAfter && !(o.Flat && strings.Contains(k[len(o.Prefix):], "/")) {
				infos = append(infos, objstore.Info{Key: k, Size: int64(len(b)), ModTime: f.times[k]})
			}
		}
		f.mu.Unlock()
		sort.Slice(infos, func(i, j int) bool { return infos[i].Key < infos[j].Key })
		for _, i := range infos {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func (f *fakeStore) Delete(ctx context.Context, key string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
	return nil
}

func (f *fakeStore) URL() string { return "mem:///" }

// clone copies the content of the store.
func (f *fakeStore) clone() *fakeStore {
	c := newFake()
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, b := range f.objects {
		c.objects[k], c.times[k] = b, f.times[k]
	}
	c.now = f.now
	return c
}
