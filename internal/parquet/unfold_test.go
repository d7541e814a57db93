package parquet

import (
	"errors"
	"slices"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
)

// All pages of a file are read: what the footer says of its chunks is the sum of them, and a changed page is damage.
func TestUnfold(t *testing.T) {
	rng := newRand(t)
	for range rounds(10) {
		s := parquettest.Schema(rng)
		b, _ := writeFile(t, rng, &Pool{}, s, Options{Codec: codecs[rng.IntN(3)]}, parquettest.Batches(rng, s, 300))
		meta := open(t, b).MetaData()
		from, chunks := int64(len(b)), int64(0)
		for i := range meta.NumRowGroups() {
			for j := range meta.Schema.NumColumns() {
				c, err := meta.RowGroup(i).ColumnChunk(j)
				if err != nil {
					t.Fatal(err)
				}
				chunks += c.TotalCompressedSize()
				if from = min(from, c.DataPageOffset()); c.HasDictionaryPage() {
					from = min(from, c.DictionaryPageOffset())
				}
			}
		}
		packed, _, err := Unfold(sourceOf(b), meta, 1<<10)
		if err != nil || packed > chunks || meta.NumRowGroups() > 0 && packed == 0 {
			t.Fatalf("%d bytes of pages in chunks of %d: %v", packed, chunks, err)
		}
		if packed == 0 {
			continue
		}
		_, n, err := parsePageHeader(b[from:])
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(b)
		bad[from+int64(n)] ^= 1
		if _, _, err := Unfold(sourceOf(bad), meta, 1<<10); !errors.Is(err, ErrDamaged) {
			t.Fatalf("a changed page: %v", err)
		}
	}
}
