package main

import (
	"bufio"
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
