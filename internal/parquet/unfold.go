package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// Unfold reads every page of a file, compares its checksum and decompresses it, a piece of a chunk at a time: the least that
// any reader of all rows does. It gives the bytes of the pages before and after.
func Unfold(src Source, footer *metadata.FileMetaData, piece int64) (packed, raw int64, err error) {
	for group := range footer.NumRowGroups() {
		o, err := newOpener(src, footer, group, ReadOptions{Allocator: memory.DefaultAllocator, Ahead: piece})
		if err != nil {
			return packed, raw, err
		}
		for column := range footer.Schema.NumColumns() {
			var l leafReader
			if err := o.chunk(&l, column); err != nil {
				return packed, raw, err
			}
			for !l.done() {
				h, err := l.header()
				if err != nil {
					return packed, raw, fmt.Errorf("column %q: %w", l.name, err)
				}
				b, err := l.take(&h)
				if err != nil {
					return packed, raw, fmt.Errorf("column %q: %w", l.name, err)
				}
				plain := int64(0)
				if h.typ == dataPageV2 {
					plain = h.defs + h.reps
				}
				if _, err := l.unfold(&h, b, plain); err != nil {
					return packed, raw, fmt.Errorf("column %q: %w", l.name, err)
				}
				packed, raw = packed+h.packed, raw+h.raw
			}
			l.close()
		}
	}
	return packed, raw, nil
}
