package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// Walk gives the header of each batch of a segment in order, with checksums verified. No batch may begin below
// next. It returns what is good of the segment, Base, Next and Size alone; a *DamageError names what stands behind that instead of a
// batch. It keeps little in memory, however large a batch claims to be (I8), and needs no index.
func Walk(fsys vfs.FS, dir string, base, next record.Offset, each func(record.BatchHeader) error) (Info, error) {
	info := Info{Base: base, Next: max(base, next)}
	f, err := fsys.OpenRead(FileName(dir, base, LogSuffix))
	if err != nil {
		return info, fmt.Errorf("walk segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return info, fmt.Errorf("walk segment: %w", err)
	}
	s := newScanner(f, info, size, true)
	for {
		h, err := s.Next()
		if errors.Is(err, io.EOF) {
			return info, nil
		}
		if err != nil {
			return info, err
		}
		info.Next, info.Size = s.next, s.pos
		if err := each(h); err != nil {
			return info, err
		}
	}
}
