package deltalog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// applyCheckpoint replays a checkpoint into an empty state. When no commit after it has decided on the protocol
// (gated is false), an unsupported protocol in it is reported before anything else that is wrong with it.
func (s *state) applyCheckpoint(ctx context.Context, store objstore.Store, c *checkpoint, gated bool) error {
	parts, err := readParts(ctx, store, c.files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.protocol != nil && !gated {
			if err := checkRead(p.protocol); err != nil {
				return err
			}
		}
	}
	var sidecars []logFile
	for i, p := range parts {
		for _, sc := range p.sidecars {
			key, err := sidecarKey(sc.Path)
			if err != nil {
				return &CorruptError{File: c.files[i].key, Err: err}
			}
			sidecars = append(sidecars, logFile{key: key, size: sc.SizeInBytes})
		}
		if err := s.apply(c.version, p, true); err != nil {
			return &CorruptError{File: c.files[i].key, Err: err}
		}
		parts[i] = nil
	}
	for len(sidecars) > 0 { // in pieces: each holds up to tens of thousands of files
		n := min(len(sidecars), fetchParallel)
		parts, err := readParts(ctx, store, sidecars[:n])
		if err != nil {
			return err
		}
		for i, p := range parts {
			only := &actions{adds: p.adds, removes: p.removes, addsBefore: p.addsBefore}
			if err := s.apply(c.version, only, true); err != nil {
				return &CorruptError{File: sidecars[i].key, Err: err}
			}
		}
		sidecars = sidecars[n:]
	}
	if s.protocol == nil || s.metadata == nil {
		return &CorruptError{File: c.files[0].key, Err: errors.New("checkpoint without protocol or metaData")}
	}
	return nil
}

// sidecarKey gives the object of a sidecar: a file name in the sidecar folder.
func sidecarKey(p string) (string, error) {
	d, err := DecodePath(p)
	if err != nil {
		return "", err
	}
	name := path.Base(d)
	if d != name && !strings.HasSuffix(d, sidecarDir+name) && d != "_sidecars/"+name || name == "." || name == ".." {
		return "", fmt.Errorf("sidecar %q is not in %s", p, sidecarDir)
	}
	return sidecarDir + name, nil
}

// readParts reads the files of a checkpoint in parallel.
func readParts(ctx context.Context, store objstore.Store, files []logFile) ([]*actions, error) {
	out := make([]*actions, len(files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchParallel)
	for i, f := range files {
		g.Go(func() error {
			b, err := store.Get(ctx, f.key)
			if err != nil {
				return fmt.Errorf("read checkpoint %s: %w", f.key, err)
			}
			if strings.HasSuffix(f.key, ".json") {
				out[i], err = parseCommit(b, f.key)
				return err
			}
			if out[i], err = parseParquet(b); err != nil {
				return &CorruptError{File: f.key, Err: err}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
