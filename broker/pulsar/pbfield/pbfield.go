// Package pbfield reads and writes the fields of protobuf messages by their numbers, for the few messages of Pulsar
// that we exchange: no generated code, no allocation a field. Damage is an error, never a panic (I8).
package pbfield

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is wrapped by every error about bytes that are no protobuf message.
var ErrMalformed = errors.New("malformed protobuf message")

// Field is one field of a message. Which of Uint and Bytes counts is for the reader to know, by the number.
type Field struct {
	Num   int
	Uint  uint64 // of varints and fixed numbers
	Bytes []byte // of strings, bytes and messages; aliases the input
}

// Int is the value of an int32, int64 or enum field.
func (f *Field) Int() int64 { return int64(f.Uint) }

// Bool is the value of a bool field.
func (f *Field) Bool() bool { return f.Uint != 0 }

// Reader goes over the fields of one message. Make it with Read.
type Reader struct {
	rest []byte
	f    Field
	err  error
}

// Read begins with the first field of a message.
func Read(msg []byte) Reader { return Reader{rest: msg} }

// Field is the one that the last Next came to.
func (r *Reader) Field() *Field { return &r.f }

// Err is what ended the message before its end; nil after the last field.
func (r *Reader) Err() error { return r.err }

// Next goes to the next field; false at the end and on damage, which Err tells apart.
func (r *Reader) Next() bool {
	if len(r.rest) == 0 || r.err != nil {
		return false
	}
	num, typ, n := protowire.ConsumeTag(r.rest)
	if n < 0 {
		return r.fail(n)
	}
	r.rest = r.rest[n:]
	r.f = Field{Num: int(num)}
	switch typ {
	case protowire.VarintType:
		r.f.Uint, n = protowire.ConsumeVarint(r.rest)
	case protowire.BytesType:
		r.f.Bytes, n = protowire.ConsumeBytes(r.rest)
	case protowire.Fixed64Type:
		r.f.Uint, n = protowire.ConsumeFixed64(r.rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(r.rest)
		r.f.Uint = uint64(v)
	default:
		n = protowire.ConsumeFieldValue(num, typ, r.rest)
	}
	if n < 0 {
		return r.fail(n)
	}
	r.rest = r.rest[n:]
	return true
}

func (r *Reader) fail(n int) bool {
	r.err = fmt.Errorf("%w: %w", ErrMalformed, protowire.ParseError(n))
	return false
}

// AppendUint adds a number, bool or enum.
func AppendUint(b []byte, num int, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(num), protowire.VarintType), v)
}

// AppendInt adds an int32 or int64.
func AppendInt(b []byte, num int, v int64) []byte { return AppendUint(b, num, uint64(v)) }

// AppendBool adds a bool.
func AppendBool(b []byte, num int, v bool) []byte { return AppendUint(b, num, protowire.EncodeBool(v)) }

// AppendString adds a string.
func AppendString(b []byte, num int, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, protowire.Number(num), protowire.BytesType), s)
}

// AppendBytes adds bytes, or a message that is encoded already.
func AppendBytes(b []byte, num int, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, protowire.Number(num), protowire.BytesType), v)
}
