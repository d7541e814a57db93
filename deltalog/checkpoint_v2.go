package deltalog

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strconv"

	"github.com/google/uuid"
)

// A V2 checkpoint is a small file that names sidecars with the files of the table. It is written when the table's
// settings ask for it (delta.checkpointPolicy=v2). Sidecars come first: a crash leaves some that nothing names,
// which log cleanup removes a day later.

// writeV2 writes sidecars and then the file that names them.
func (l *Log) writeV2(ctx context.Context, snap *Snapshot) (newHint, error) {
	now := l.cfg.Clock().UnixMilli()
	plan := planStructs(snap.metadata, snap.schema)
	next, stop := iter.Pull2(snap.fileActions(now))
	defer stop()
	var sidecars []Sidecar
	var actions, bytes, adds int64
	for a, x, more := next(); more; {
		name := uuid.NewString() + ".parquet"
		f, err := l.writePart(ctx, sidecarDir+name, sidecarColumns(), plan, func(c *columnWriter) error {
			for n := 0; more && n < sidecarRows; n++ {
				if a != nil {
					adds++
				}
				if err := c.file(a, x); err != nil {
					return err
				}
				a, x, more = next()
			}
			return nil
		})
		if err != nil {
			return newHint{}, fmt.Errorf("sidecar: %w", err)
		}
		sidecars = append(sidecars, Sidecar{Path: name, SizeInBytes: f.size, ModificationTime: f.modTime})
		actions, bytes = actions+f.rows, bytes+f.size
	}
	text := func(n int64) *string { s := strconv.FormatInt(n, 10); return &s }
	tags := map[string]*string{"sidecarNumActions": text(actions), "sidecarSizeInBytes": text(bytes), "numOfAddFiles": text(adds)}
	key := fmt.Sprintf("%s%020d.checkpoint.%s.parquet", logDir, snap.version, uuid.NewString())
	f, err := l.writePart(ctx, key, manifestColumns(), nil, func(c *columnWriter) error {
		if err := c.manifest(snap.version, tags); err != nil {
			return err
		}
		if err := c.named(snap, now); err != nil {
			return err
		}
		for i := range sidecars {
			if err := c.sidecar(&sidecars[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return newHint{Version: snap.version, Size: actions + f.rows, SizeInBytes: bytes + f.size, NumAdds: adds,
		V2: &hintV2{Path: path.Base(key), SizeInBytes: f.size, ModificationTime: f.modTime}}, err
}
