package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
)

// replayFloor is the case that only reads the pages of the table, checks and decompresses them: what is left of a reader
// of all columns that decodes nothing. It says what the machine allows.
const replayFloor = "pages only, nothing decoded"

// floor runs it once, with one thread, as large a piece at a time as the scan reads of a folder.
func (c *replayCase) floor(r *Report, round int) error {
	s, err := measure(replayFloor, round, func() (int64, int64, error) {
		names, err := filepath.Glob(filepath.Join(c.path, "*.parquet"))
		rows := int64(0)
		for _, name := range names {
			n, fault := unfoldFile(name)
			rows, err = rows+n, errors.Join(err, fault)
		}
		return rows, c.bytes, err
	})
	if err != nil {
		return err
	}
	if s.Records != c.records {
		return fmt.Errorf("wrong result: the pages are of %d rows, not of %d", s.Records, c.records)
	}
	r.Samples = append(r.Samples, s)
	return nil
}

func unfoldFile(name string) (rows int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	pq, err := file.NewParquetReader(f)
	if err != nil {
		return 0, err
	}
	footer := pq.MetaData()
	packed, raw, err := parquet.Unfold(io.NewSectionReader(f, 0, info.Size()), footer, 256<<10)
	if err != nil {
		return 0, err
	}
	return pq.NumRows(), checkUnfolded(footer, packed, raw)
}

// checkUnfolded compares the bytes of the pages with the sizes that the footer tells of its chunks. These are with the headers
// of the pages, which have the same size in both: what is left above the pages.
func checkUnfolded(footer *metadata.FileMetaData, packed, raw int64) error {
	var most, rawMost int64
	for _, group := range footer.RowGroups {
		for _, column := range group.Columns {
			most += column.MetaData.TotalCompressedSize
			rawMost += column.MetaData.TotalUncompressedSize
		}
	}
	if headers := most - packed; packed <= 0 || headers <= 0 || headers != rawMost-raw {
		return fmt.Errorf("wrong result: pages of %d bytes hold %d, the footer tells of chunks of %d and %d with their headers", packed, raw, most, rawMost)
	}
	return nil
}
