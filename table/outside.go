package table

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// outside are the folders with files of a table that do not lie in its own, as those of shallow clones do.
type outside struct {
	mu     sync.Mutex
	stores map[string]objstore.Store
}

// locate finds a file that the log names, URI-encoded, in the table's folder or, if Config.Outside allows it, in another.
func (t *Table) locate(ctx context.Context, encoded, what string) (objstore.Store, string, error) {
	key, err := t.objectKey(encoded, what)
	if err == nil || t.cfg.Outside == nil {
		return t.Store, key, err
	}
	p, derr := deltalog.DecodePath(encoded)
	if derr != nil {
		return nil, "", derr
	}
	_, local := localPath(p)
	if here := strings.HasPrefix(t.Store.URL(), "/"); here != local { // a log on a remote store does not say what to read here
		return nil, "", err
	}
	if local {
		p, _ = localPath(p)
	}
	cut := strings.LastIndexByte(p, '/')
	if cut <= strings.Index(p, "://")+2 {
		return nil, "", err
	}
	store, err := t.outsideStore(ctx, p[:cut])
	if err != nil {
		return nil, "", fmt.Errorf("%s outside of the table's folder: %s: %w", what, encoded, err)
	}
	return store, p[cut+1:], nil
}

func (t *Table) outsideStore(ctx context.Context, folder string) (objstore.Store, error) {
	t.outside.mu.Lock()
	defer t.outside.mu.Unlock()
	if s, ok := t.outside.stores[folder]; ok {
		return s, nil
	}
	s, err := t.cfg.Outside(ctx, folder)
	if err != nil {
		return nil, err
	}
	if t.outside.stores == nil {
		t.outside.stores = map[string]objstore.Store{}
	}
	t.outside.stores[folder] = s
	return s, nil
}

// localPath gives the path of this machine that an absolute path or a file URI names.
func localPath(p string) (string, bool) {
	if rest, ok := strings.CutPrefix(p, "file:"); ok {
		return "/" + strings.TrimLeft(strings.TrimPrefix(rest, "//localhost"), "/"), true
	}
	return p, strings.HasPrefix(p, "/")
}
