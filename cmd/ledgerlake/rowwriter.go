package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/reader"
)

// rowWriter writes batches in one of the output forms.
type rowWriter interface {
	write(arrow.RecordBatch) error
	close() error
}

// newRowWriter makes the writer of a form; value names the column with raw values.
func newRowWriter(form string, out io.Writer, schema *arrow.Schema, value string) (rowWriter, error) {
	buf := bufio.NewWriterSize(out, 1<<20)
	switch form {
	case "ndjson":
		return &textWriter{out: buf, rows: reader.AppendNDJSON}, nil
	case "csv":
		_, err := buf.Write(reader.AppendCSVHeader(nil, schema))
		return &textWriter{out: buf, rows: reader.AppendCSV}, err
	case "raw":
		if len(schema.FieldIndices(value)) != 1 {
			return nil, errors.New("--output raw needs the column of raw values, which the table does not have or --columns leaves out")
		}
		return &textWriter{out: buf, rows: func(dst []byte, rb arrow.RecordBatch) ([]byte, error) {
			return reader.AppendValues(dst, rb, value)
		}}, nil
	case "arrow":
		return &arrowWriter{out: buf, w: ipc.NewWriter(buf, ipc.WithSchema(schema))}, nil
	case "parquet":
		w, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{buf},
			parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
		if err != nil {
			return nil, fmt.Errorf("start parquet: %w", err)
		}
		return &parquetWriter{out: buf, w: w}, nil
	}
	return nil, fmt.Errorf("--output %q is not ndjson, csv, arrow, parquet or raw", form)
}

// textWriter writes lines.
type textWriter struct {
	out  *bufio.Writer
	rows func(dst []byte, rb arrow.RecordBatch) ([]byte, error)
	buf  []byte
}

func (w *textWriter) write(rb arrow.RecordBatch) (err error) {
	if w.buf, err = w.rows(w.buf[:0], rb); err != nil {
		return err
	}
	if _, err = w.out.Write(w.buf); err != nil {
		return err
	}
	return w.out.Flush() // a follower sees each batch at once; batches are large otherwise
}

func (w *textWriter) close() error { return w.out.Flush() }

type arrowWriter struct {
	out *bufio.Writer
	w   *ipc.Writer
}

func (w *arrowWriter) write(rb arrow.RecordBatch) error {
	return errors.Join(w.w.Write(rb), w.out.Flush())
}

func (w *arrowWriter) close() error { return errors.Join(w.w.Close(), w.out.Flush()) }

type parquetWriter struct {
	out *bufio.Writer
	w   *pqarrow.FileWriter
}

func (w *parquetWriter) write(rb arrow.RecordBatch) error { return w.w.WriteBuffered(rb) }

func (w *parquetWriter) close() error { return errors.Join(w.w.Close(), w.out.Flush()) }

// printPlan shows what a read would do, for people.
func printPlan(ctx context.Context, out io.Writer, c *reader.Cursor) error {
	p, err := c.Plan(ctx)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	for _, q := range p.Partitions {
		until := "no end"
		if q.Until >= 0 {
			until = fmt.Sprint(q.Until)
		}
		fmt.Fprintf(w, "partition %d: from %d, table up to %d, then the log, until %s\n", q.Partition, q.From, q.Seam, until)
		for _, l := range q.Lost {
			fmt.Fprintf(w, "  lost before they were tiered: offsets [%d, %d)\n", l.From, l.To)
		}
	}
	if p.Version >= 0 {
		fmt.Fprintf(w, "table version %d: %d of %d files, %d bytes, %d rows\n", p.Version, len(p.Files), p.OfFiles, p.Bytes, p.Rows)
	}
	for _, f := range p.Files {
		groups := "row groups not looked at"
		if f.Groups >= 0 {
			groups = fmt.Sprintf("%d of %d row groups", f.Groups, f.OfGroups)
		}
		fmt.Fprintf(w, "  %s: %d bytes, %d rows, %s", f.Path, f.Bytes, f.Rows, groups)
		for i, r := range f.Ranges {
			if i == 8 {
				fmt.Fprintf(w, " and %d ranges more", len(f.Ranges)-i)
				break
			}
			fmt.Fprintf(w, " %s", r)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
