package table

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/objstore"
)

// groupRows gives the rows of one row group, batch by batch. Most files are read by our own decoder; what it does not
// know is left to the Parquet library, from the row on where that turns out.
type groupRows struct {
	f     *fileScan
	group int
	at    int64 // row of the group that comes next
	own   *parquet.GroupReader
	lib   pqarrow.RecordReader
	rest  arrow.RecordBatch // of the library's, not yet given
	drop  int64             // rows of the library's to drop first
}

// nearPiece is how much of a column is read at once where that costs little: it is still in the processor's cache when it
// is decoded. Where many files are open at once it is less, down to the other two.
const (
	nearPiece  = 256 << 10
	leastPiece = 32 << 10
	farPiece   = 128 << 10 // of stores where each request costs
)

// ReadsInPieces says whether scans read columns a small piece at a time, as they do where a read costs little: their memory then
// does not grow with the sizes of files. From other stores they read the column of a row group at once, of files of up to 256 MiB.
func (t *Table) ReadsInPieces() bool {
	_, near := t.Store.(objstore.IntoReader)
	return near
}

// openGroup begins at the first of some rows of a group.
func (f *fileScan) openGroup(group int, spans []parquet.RowSpan) (*groupRows, error) {
	g := &groupRows{f: f, group: group, at: spans[0].From}
	if f.s.library {
		return g, g.useLibrary()
	}
	opts := parquet.ReadOptions{Allocator: recycled, Index: f.index, Rows: spans}
	if f.streamed {
		opts.Ahead = f.s.buffer
	}
	most, least := int64(0), int64(farPiece)
	if f.s.t.ReadsInPieces() {
		most, least = nearPiece, leastPiece
	}
	if f.u.share > 0 {
		piece := max(f.u.share/2/int64(len(f.leaves)), least)
		if most == 0 || piece < most {
			most = piece
		}
	}
	if most > 0 && (opts.Ahead == 0 || opts.Ahead > most) {
		opts.Ahead = most
	}
	var err error
	if g.own, err = parquet.OpenGroup(f.source, f.pq.MetaData(), f.fr.Manifest, group, f.wants, opts); err == nil {
		err = g.own.Skip(g.at)
	}
	if err != nil {
		if err = g.instead(err); err != nil {
			g.release()
		}
	}
	return g, err
}

// skipTo passes over the rows before one.
func (g *groupRows) skipTo(row int64) error {
	n := row - g.at
	g.at = row
	if g.own != nil {
		err := g.own.Skip(n)
		if err == nil {
			return nil
		}
		return g.instead(err)
	}
	g.drop += n // a new reader would decode again what lies before
	return nil
}

// instead turns to the library when our decoder could not go on for want of knowledge.
func (g *groupRows) instead(err error) error {
	if !errors.Is(err, parquet.ErrUnsupported) {
		return err
	}
	g.release()
	return g.useLibrary()
}

// useLibrary goes on with the library. With lists and maps it comes to a wrong row when it seeks and their chunk has
// several pages: all rows before are then read, and dropped.
func (g *groupRows) useLibrary() (err error) {
	f := g.f
	if g.lib, err = f.fr.GetRecordReader(f.ctx, f.leaves, []int{g.group}); err != nil || g.at == 0 {
		return err
	}
	for _, i := range f.leaves {
		if f.pq.MetaData().Schema.Column(i).MaxRepetitionLevel() > 0 {
			g.drop = g.at
			return nil
		}
	}
	return g.lib.SeekToRow(g.at)
}

// next gives the next rows, at most that many. The caller releases them.
func (g *groupRows) next(most int64) (arrow.RecordBatch, error) {
	if g.own != nil {
		cols, n, err := g.own.Next(int(most))
		if err == nil {
			g.at += int64(n)
			return g.dated(recordBatch(g.own.Schema(), cols, n))
		}
		if err := g.instead(err); err != nil {
			return nil, err
		}
	}
	return g.fromLibrary(most)
}

// fromLibrary gives the next rows of the library's, whose batches may have more than were asked for.
func (g *groupRows) fromLibrary(most int64) (arrow.RecordBatch, error) {
	for {
		if g.rest == nil {
			if !g.lib.Next() {
				if err := g.lib.Err(); err != nil && !errors.Is(err, io.EOF) {
					return nil, err
				}
				return nil, io.ErrUnexpectedEOF
			}
			g.rest = g.lib.RecordBatch()
			g.rest.Retain()
		}
		if n := g.rest.NumRows(); g.drop >= n {
			g.drop -= n
			g.use(n)
			continue
		}
		to := min(g.rest.NumRows(), g.drop+most)
		out := g.rest.NewSlice(g.drop, to)
		g.use(to)
		g.drop = 0
		g.at += out.NumRows()
		return g.dated(out)
	}
}

// dated gives rows of the file by today's calendar. It releases what it is given.
func (g *groupRows) dated(rb arrow.RecordBatch) (arrow.RecordBatch, error) {
	f := g.f
	if f.calendar == nil {
		return rb, nil
	}
	defer rb.Release()
	cols := make([]arrow.ArrayData, 0, rb.NumCols())
	for i, field := range rb.Schema().Fields() {
		at := slices.IndexFunc(f.fr.Manifest.Fields, func(sf pqarrow.SchemaField) bool { return sf.Field.Name == field.Name })
		d, err := f.calendar.Of(rb.Column(i).Data(), &f.fr.Manifest.Fields[at], f.pq.MetaData(), recycled)
		if err != nil {
			for _, d := range cols {
				d.Release()
			}
			return nil, fmt.Errorf("column %q: %w", field.Name, err)
		}
		cols = append(cols, d)
	}
	return recordBatch(rb.Schema(), cols, int(rb.NumRows())), nil
}

// use lets go of the first n rows of the rest.
func (g *groupRows) use(n int64) {
	old := g.rest
	g.rest = nil
	if n < old.NumRows() {
		g.rest = old.NewSlice(n, old.NumRows())
	}
	old.Release()
}

func recordBatch(schema *arrow.Schema, cols []arrow.ArrayData, n int) arrow.RecordBatch {
	arrays := make([]arrow.Array, len(cols))
	for i, d := range cols {
		arrays[i] = array.MakeFromData(d)
		d.Release()
		defer arrays[i].Release()
	}
	return array.NewRecordBatch(schema, arrays, int64(n))
}

func (g *groupRows) release() {
	if g.own != nil {
		g.own.Release()
		g.own = nil
	}
	if g.rest != nil {
		g.rest.Release()
		g.rest = nil
	}
	if g.lib != nil {
		g.lib.Release()
		g.lib = nil
	}
}
