package deltalog

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// sidecarRows is how many files a sidecar holds.
const sidecarRows = 50_000

// applyCheckpoint replays a checkpoint into an empty state, a few thousand actions at a time.
func (s *state) applyCheckpoint(ctx context.Context, store objstore.Store, c *checkpoint) error {
	named := &actions{}
	for _, f := range c.files {
		err := readPart(ctx, store, f, s.light, func(a *actions) error {
			if err := named.joinNamed(a); err != nil {
				return err
			}
			return s.applyFiles(c.version, mark{}, a, true)
		})
		if err != nil {
			return err
		}
	}
	first := c.files[0].key
	sidecars := named.sidecars
	if err := s.applyNamed(c.version, named); err != nil {
		return &CorruptError{File: first, Err: err}
	}
	if s.protocol == nil || s.metadata == nil {
		return &CorruptError{File: first, Err: errors.New("checkpoint without protocol or metaData")}
	}
	if s.light {
		s.count += int64(len(sidecars)) * sidecarRows
		return nil
	}
	for _, sc := range sidecars {
		key, err := sidecarKey(sc.Path)
		if err != nil {
			return &CorruptError{File: first, Err: err}
		}
		err = readPart(ctx, store, logFile{key: key, size: -1}, false, func(a *actions) error {
			return s.applyFiles(c.version, mark{}, a, true)
		})
		if err != nil {
			return err
		}
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

// readPart reads one file of a checkpoint and gives its actions in pieces. light leaves out files.
func readPart(ctx context.Context, store objstore.Store, f logFile, light bool, use func(*actions) error) error {
	if strings.HasSuffix(f.key, ".json") {
		return eachPiece(ctx, store, []logFile{f}, func(p *piece) error {
			if err := use(p.a); err != nil {
				return &CorruptError{File: f.key, Err: err}
			}
			return nil
		})
	}
	src, err := openSource(ctx, store, f)
	if err != nil {
		return fmt.Errorf("read checkpoint %s: %w", f.key, err)
	}
	if err := parseParquet(src, light, use); err != nil {
		if src.failed != nil { // the store's fault, not the file's
			return fmt.Errorf("read checkpoint %s: %w", f.key, src.failed)
		}
		return &CorruptError{File: f.key, Err: err}
	}
	return nil
}
