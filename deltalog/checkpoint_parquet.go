package deltalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// wantedFields are the action columns and the fields of them that are read; everything else in a checkpoint is
// ignored, as the protocol asks. A field stands for all that is below it.
func wantedFields(column string) string {
	switch column {
	case "txn":
		return " appId version lastUpdated "
	case "add":
		return " path partitionValues size modificationTime dataChange tags deletionVector baseRowId defaultRowCommitVersion clusteringProvider stats "
	case "remove":
		return " path deletionTimestamp dataChange extendedFileMetadata partitionValues size stats tags deletionVector baseRowId defaultRowCommitVersion "
	case "metaData":
		return " id name description format schemaString partitionColumns configuration createdTime "
	case "protocol":
		return " minReaderVersion minWriterVersion readerFeatures writerFeatures "
	case "domainMetadata":
		return " domain configuration removed "
	case "checkpointMetadata":
		return " version "
	case "sidecar":
		return " path sizeInBytes modificationTime "
	}
	return ""
}

// parquetColumn is one action column with the leaves that are read.
type parquetColumn struct {
	name   string
	leaves []*parquetLeaf
	byName map[string]*parquetLeaf
	parsed []*parquetLeaf // add.stats_parsed
}

func (c *parquetColumn) leaf(name string) *parquetLeaf { return c.byName[name] }

func (c *parquetColumn) mapOf(name string) parquetMap {
	return parquetMap{c.byName[name+"#key"], c.byName[name+"#value"]}
}

// parseParquet reads one parquet file of a checkpoint. Panics of the decoder on hostile bytes become errors (I8):
// everything here runs in the calling goroutine.
func parseParquet(data []byte) (out *actions, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("parquet decoder: %v", r)
		}
	}()
	f, err := file.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	columns := chooseColumns(f)
	if len(columns) == 0 {
		return nil, errors.New("no action columns")
	}
	out = &actions{}
	in := newInterner()
	readers := make([]func() error, len(columns))
	for i, c := range columns {
		readers[i] = out.rowReader(c, in)
	}
	for g := range f.NumRowGroups() {
		if err := readRowGroup(f.RowGroup(g), int64(len(data)), columns, readers); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readRowGroup(rg *file.RowGroupReader, fileSize int64, columns []*parquetColumn, readers []func() error) error {
	for _, c := range columns {
		for _, l := range c.leaves {
			if err := l.open(rg, fileSize); err != nil {
				return fmt.Errorf("column %s.%s: %w", c.name, l.name, err)
			}
		}
	}
	for range rg.NumRows() {
		for i, c := range columns {
			for _, l := range c.leaves {
				if err := l.next(); err != nil {
					return fmt.Errorf("column %s.%s: %w", c.name, l.name, err)
				}
			}
			if c.leaves[0].level < c.leaves[0].groupDef {
				continue
			}
			if err := readers[i](); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
		}
	}
	return nil
}

// chooseColumns gives the columns to decode. Struct statistics are decoded only when there are no JSON ones.
func chooseColumns(f *file.Reader) []*parquetColumn {
	sc := f.MetaData().Schema
	var out []*parquetColumn
	byName := map[string]*parquetColumn{}
	stats := -1
	for i := range sc.NumColumns() {
		p := sc.Column(i).ColumnPath()
		fields := wantedFields(p[0])
		if len(p) < 2 || fields == "" {
			continue
		}
		parsed := p[0] == "add" && p[1] == "stats_parsed"
		if !parsed && !strings.Contains(fields, " "+p[1]+" ") {
			continue
		}
		l, ok := newLeaf(i, sc.Column(i))
		if !ok {
			continue
		}
		c := byName[p[0]]
		if c == nil {
			c = &parquetColumn{name: p[0], byName: map[string]*parquetLeaf{}}
			byName[p[0]] = c
			out = append(out, c)
		}
		switch {
		case parsed && l.repeatDef == 0:
			c.parsed = append(c.parsed, l)
		case !parsed:
			c.leaves = append(c.leaves, l)
			c.byName[l.name] = l
			if p[0] == "add" && l.name == "stats" {
				stats = i
			}
		}
	}
	if c := byName["add"]; c != nil {
		if stats < 0 || allNull(f, stats) {
			c.leaves = append(c.leaves, c.parsed...)
		} else {
			c.parsed = nil
		}
	}
	kept := out[:0]
	for _, c := range out {
		if len(c.leaves) > 0 {
			kept = append(kept, c)
		}
	}
	return kept
}

// allNull says whether the column's statistics prove that it holds nothing.
func allNull(f *file.Reader, column int) bool {
	for g := range f.NumRowGroups() {
		rg := f.MetaData().RowGroup(g)
		cc, err := rg.ColumnChunk(column)
		if err != nil {
			return false
		}
		st, err := cc.Statistics()
		if err != nil || st == nil || !st.HasNullCount() || st.NullCount() != rg.NumRows() {
			return false
		}
	}
	return true
}

// checkpointSource reads a stored object where the parquet reader asks, so that a footer can be checked
// without loading the whole object.
type checkpointSource struct {
	read func(off, length int64) ([]byte, error)
	size int64
	pos  int64
}

var _ parquet.ReaderAtSeeker = (*checkpointSource)(nil)

func (c *checkpointSource) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), c.size-off)
	if n <= 0 {
		return 0, io.EOF
	}
	b, err := c.read(off, n)
	if err != nil {
		return 0, err
	}
	if copy(p, b) < len(p) {
		return len(b), io.EOF
	}
	return len(p), nil
}

func (c *checkpointSource) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	c.pos = offset
	return offset, nil
}
