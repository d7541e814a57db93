// Package decode turns message values into rows of arrow columns, guided by the schema of the table. A value
// becomes exactly one row or leaves nothing behind: every decoder rolls a half-written row back (I7).
//
// A decoder is for one goroutine at a time. Its arrays alias its buffers and stay valid until Reset. Once
// its buffers have grown and it has seen the keys of the messages, appending does not allocate.
//
// A value that is not acceptable gives an *Error that says why, where in the row and at which byte. Values
// come from anywhere: no input makes a decoder panic or use memory out of proportion to the input (I8).
// Decoders keep nothing on disk; after a crash the rows are decoded again from the log.
package decode

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/record"
)

// ErrFull says that the decoder holds as much as arrow's 32 bit offsets can address. The value is not at
// fault: take the Arrays, Reset, and append it again.
var ErrFull = errors.New("decode: batch is full")

// Decoder collects messages as rows of columns.
type Decoder interface {
	// Append decodes one message into one row of all columns. On error nothing is appended; an *Error means
	// that the value itself is bad, an *UnavailableError that it is to be tried again. A nil value, a tombstone,
	// gives a row of nulls.
	Append(value []byte) error
	// AppendNull adds a row of nulls, without a look at whether columns may be null.
	AppendNull()
	// Rows is the number of rows since Reset.
	Rows() int
	// Arrays wraps the columns so far, in schema order and without a copy; valid until Reset. It may be nil
	// when the decoder has no columns.
	Arrays() []arrow.Array
	// Reset drops the rows and keeps the memory.
	Reset()
}

// RecordDecoder is a decoder that looks at the record around a value too.
type RecordDecoder interface {
	Decoder
	// Begin says what batch the records come from that follow.
	Begin(partition int32, batch record.BatchHeader)
	// AppendRecord is Append for a whole record. ErrFiltered when it is to be no row.
	AppendRecord(rec *record.Record) error
}

// Framer is a decoder of values that do not say which schema they are of: what says it stands beside them.
type Framer interface {
	RecordDecoder
	// Frame gives the value of a record as Append of a Fields takes it, good until the next call. Its errors are those
	// of Append; nil stands for a value that is null.
	Frame(rec *record.Record) ([]byte, error)
}

// Opener is a decoder of values that are wrapped as a whole, as compressed ones: Append opens a value and appends what is in
// it to the inner decoder.
type Opener interface {
	Decoder
	Inner() Decoder
	// Open gives what is in a value, good until the next call of Open or Append. Its errors are those of Append.
	Open(value []byte) ([]byte, error)
}

// Truncater is a decoder that can take back its last rows. Tables with rules for their rows need one.
type Truncater interface {
	// Truncate cuts back to n rows.
	Truncate(n int)
}

// FieldReader is a decoder whose values have fields that expressions can look at, though they are not JSON themselves.
type FieldReader interface {
	Decoder
	// NewFields makes a look at fields of values, by name; need nil: at all that a column can hold. A value whose schema has
	// a field in need that no column can hold is bad; one in also is then left out.
	NewFields(need, also []string) (Fields, error)
}

// Declarer is a decoder of values that come with the schema of their writer. Tables that follow the schema ask it.
type Declarer interface {
	// Declared gives the columns that a new table would have by the schema of the last value that had one, good or bad,
	// without the fields that no column can hold; nil while there was none. It is the same pointer while the schema is the same.
	Declared() *arrow.Schema
}

// AsDeclarer finds the Declarer in a decoder, also below decoders that have an Inner one; false when there is none.
func AsDeclarer(d Decoder) (Declarer, bool) {
	for {
		if found, ok := d.(Declarer); ok {
			return found, true
		}
		around, ok := d.(interface{ Inner() Decoder })
		if !ok {
			return nil, false
		}
		d = around.Inner()
	}
}

// Fields gives fields of values as JSON. It is for one goroutine at a time.
type Fields interface {
	// AppendJSON appends a JSON object with the fields that the value has, null ones left out. Its errors are those of
	// Decoder.Append.
	AppendJSON(dst, value []byte) ([]byte, error)
}

// AppendString appends text, which is UTF-8, as a JSON string.
func AppendString[T ~string | ~[]byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(text) {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// ErrFiltered says that a record is good and to become no row: it was asked to be left out.
var ErrFiltered = errors.New("decode: the record is left out by the filter")

// Format is one encoding of message values. It is safe for concurrent use; the decoders that it makes are not.
type Format interface {
	// Columns proposes payload columns for a table that is to be made: from the schema that the format knows or
	// finds, else from sampled values. ErrNoSamples when neither tells any.
	Columns(ctx context.Context, samples [][]byte) (*arrow.Schema, error)
	// NewDecoder makes a decoder that fills the payload columns of a table. The table leads: a field that it
	// lacks is passed over, a column that a value lacks is null.
	NewDecoder(payload *arrow.Schema) (Decoder, error)
}

// UnavailableError says that a value could not be decoded yet, because what it needs is out of reach, as a
// schema while the registry is down. The value is not at fault: nothing was appended, and the same Append is
// to be tried again later. It is never a reason for a dead letter (I7).
type UnavailableError struct{ Err error }

// Error gives the cause.
func (e *UnavailableError) Error() string { return "decode value: not now: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Error says why a value cannot be a row.
type Error struct {
	Reason string // what is wrong, in words
	Path   string // the column, as in user.tags[3]; empty for the value as a whole
	Pos    int    // the byte of the value where it was noticed, from 0
}

// Error gives reason, column and byte.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("decode value: %s (byte %d)", e.Reason, e.Pos)
	}
	return fmt.Sprintf("decode value: %s: %s (byte %d)", e.Path, e.Reason, e.Pos)
}

// Under puts one more step in front of the path, on the way out of the nesting.
func (e *Error) Under(step string) {
	switch {
	case e.Path == "":
		e.Path = step
	case e.Path[0] == '[':
		e.Path = step + e.Path
	default:
		e.Path = step + "." + e.Path
	}
}

// Raw is the decoder of tables that keep the value as it is: it has no columns and takes every value.
type Raw struct{ rows int }

// NewRaw makes a decoder without columns.
func NewRaw() Decoder { return &Raw{} }

// Append counts a row.
func (r *Raw) Append([]byte) error { r.rows++; return nil }

// AppendNull counts a row.
func (r *Raw) AppendNull() { r.rows++ }

// Rows is the number of rows since Reset.
func (r *Raw) Rows() int { return r.rows }

// Arrays is nil: there are no columns.
func (r *Raw) Arrays() []arrow.Array { return nil }

// Truncate cuts back to n rows.
func (r *Raw) Truncate(n int) { r.rows = n }

// Reset drops the rows.
func (r *Raw) Reset() { r.rows = 0 }

// ForTable gives the JSON decoder of a table's payload columns. Tiering and the reader's tail both take it
// from here, so that a record becomes the same row on both sides of the seam. Values are coerced: a column
// that was inferred as string from values of several types takes them all.
//
// A string column with the name RescuedColumn takes the fields of a value that no other column takes, as one JSON
// object.
func ForTable(payload *arrow.Schema) (*JSON, error) {
	d, err := NewJSON(payload, JSONOptions{Coerce: true})
	if err != nil {
		return nil, err
	}
	if f, ok := payload.FieldsByName(RescuedColumn); ok && f[0].Type.ID() == arrow.STRING {
		d.startRescue()
	}
	return d, nil
}
