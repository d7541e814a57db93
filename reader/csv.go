package reader

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// AppendCSVHeader appends a line with the names of the columns.
func AppendCSVHeader(dst []byte, schema *arrow.Schema) []byte {
	for i, f := range schema.Fields() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCSVText(dst, []byte(f.Name))
	}
	return append(dst, '\n')
}

// AppendCSV appends each row of rb as one line (RFC 4180, lines end with LF). Values are written as by AppendNDJSON,
// without the quotes of JSON; lists, maps and structs are JSON texts. Null is nothing at all and an empty text is "",
// so that the two stay apart.
func AppendCSV(dst []byte, rb arrow.RecordBatch) ([]byte, error) {
	var cell []byte
	var err error
	cols := rb.Columns()
	for row := range int(rb.NumRows()) {
		for i, col := range cols {
			if i > 0 {
				dst = append(dst, ',')
			}
			if col.IsNull(row) {
				continue
			}
			if s, ok := col.(interface{ Value(int) string }); ok {
				dst = appendCSVText(dst, []byte(s.Value(row)))
				continue
			}
			if cell, err = readable.appendValue(cell[:0], col, row); err != nil {
				return dst, fmt.Errorf("column %s: %w", rb.ColumnName(i), err)
			}
			if len(cell) > 1 && cell[0] == '"' { // base64, times and dates have nothing to escape
				cell = cell[1 : len(cell)-1]
			}
			dst = appendCSVText(dst, cell)
		}
		dst = append(dst, '\n')
	}
	return dst, nil
}

// appendCSVText quotes where it must, and an empty text.
func appendCSVText(dst, s []byte) []byte {
	if len(s) > 0 && !bytes.ContainsAny(s, ",\"\r\n") && s[0] != ' ' && s[len(s)-1] != ' ' {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for _, c := range s {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// AppendValues appends the raw value of each row and a line feed. A tombstone is an empty line. The column must hold
// bytes or text.
func AppendValues(dst []byte, rb arrow.RecordBatch, column string) ([]byte, error) {
	idx := rb.Schema().FieldIndices(column)
	if len(idx) != 1 {
		return dst, fmt.Errorf("%w: there is no column %q", ErrNotReplayable, column)
	}
	col := rb.Column(idx[0])
	var at func(int) []byte
	switch a := col.(type) {
	case interface{ Value(int) []byte }:
		at = a.Value
	case interface{ Value(int) string }:
		at = func(i int) []byte { return []byte(a.Value(i)) }
	default:
		return dst, fmt.Errorf("%w: column %q of type %s holds no raw values", ErrNotReplayable, column, col.DataType())
	}
	for i := range col.Len() {
		if col.IsValid(i) {
			dst = append(dst, at(i)...)
		}
		dst = append(dst, '\n')
	}
	return dst, nil
}
