package table

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
	"github.com/ledgerlake/ledgerlake/record"
)

// SystemColumns collects the system columns of records. Once its buffers are warm a record costs no allocation.
type SystemColumns struct {
	partition  *column.Int32
	offset     *column.Int64
	timestamp  *column.Timestamp
	key, value *column.Binary
	headers    *column.List
	header     *column.Struct
	hkey, hval *column.Binary
	origin     *originColumns // nil: none of its columns is kept
	topic      *column.Binary
	ofTopic    []byte
	all        []column.Column
	rows       int
}

// NewSystemColumns makes the builder of the columns that the names keep, for records of a topic: its name fills the column
// that tells topics apart, where there is one.
func NewSystemColumns(n Names, topic string) *SystemColumns {
	s := &SystemColumns{ofTopic: []byte(topic)}
	types := systemTypes()
	if n.origin() {
		s.origin = &originColumns{}
	}
	for i, name := range n.list() {
		if name == "" {
			continue
		}
		c, err := column.New(arrow.Field{Name: name, Type: types[i], Nullable: true})
		if err != nil { // the types are fixed above, so this cannot depend on input
			panic(fmt.Sprintf("system column %s: %v", name, err))
		}
		s.all = append(s.all, c)
		switch i {
		case 0:
			s.partition = c.(*column.Int32)
		case 1:
			s.offset = c.(*column.Int64)
		case 2:
			s.timestamp = c.(*column.Timestamp)
		case 3:
			s.key = c.(*column.Binary)
		case 4:
			s.headers = c.(*column.List)
			s.header = s.headers.Elem().(*column.Struct)
			s.hkey, s.hval = s.header.Child(0).(*column.Binary), s.header.Child(1).(*column.Binary)
		case 5:
			s.value = c.(*column.Binary)
		case behindOrigin:
			s.topic = c.(*column.Binary)
		default:
			s.origin.set(i-firstOrigin, c)
		}
	}
	return s
}

// maxMillis is the latest time that microseconds hold.
const maxMillis = math.MaxInt64 / 1000

// Append adds the row of one record, with copies of its bytes. Callers keep the record's size below Room.
func (s *SystemColumns) Append(partition int32, rec *record.Record) {
	if s.partition != nil {
		s.partition.Append(partition)
	}
	if s.offset != nil {
		s.offset.Append(int64(rec.Offset))
	}
	if s.timestamp != nil {
		// -1 is a producer that gave none; a time beyond what microseconds hold cannot be kept either.
		if rec.Timestamp == -1 || rec.Timestamp > maxMillis || rec.Timestamp < math.MinInt64/1000 {
			s.timestamp.AppendNull()
		} else {
			s.timestamp.Append(arrow.Timestamp(rec.Timestamp * 1000))
		}
	}
	if s.key != nil {
		appendBytes(s.key, rec.Key)
	}
	headers := rec.Headers
	if s.origin != nil {
		headers = s.origin.append(rec)
	}
	if s.headers != nil {
		for i := range headers {
			s.hkey.Append(headers[i].Key)
			appendBytes(s.hval, headers[i].Value)
			s.header.Append()
		}
		s.headers.Append()
	}
	if s.value != nil {
		appendBytes(s.value, rec.Value)
	}
	if s.topic != nil {
		s.topic.Append(s.ofTopic)
	}
	s.rows++
}

func appendBytes(c *column.Binary, v []byte) {
	if v == nil {
		c.AppendNull()
		return
	}
	c.Append(v)
}

// Rows is the number of rows.
func (s *SystemColumns) Rows() int { return s.rows }

// Offset is that of a row; -1 where the table has no such column.
func (s *SystemColumns) Offset(row int) int64 {
	if s.offset == nil {
		return -1
	}
	return s.offset.Values()[row]
}

// Room is how many bytes the next record may have.
func (s *SystemColumns) Room() int {
	room := column.MaxData
	for _, c := range []*column.Binary{s.key, s.value, s.hkey, s.hval, s.topic} {
		if c != nil {
			room = min(room, c.Room())
		}
	}
	return room
}

// Bytes estimates the memory that the rows take.
func (s *SystemColumns) Bytes() int64 {
	n := int64(0)
	for _, c := range s.all {
		n += c.Bytes()
	}
	return n
}

// Truncate cuts back to n rows.
func (s *SystemColumns) Truncate(n int) {
	for _, c := range s.all {
		c.Truncate(n)
	}
	s.rows = n
}

// Reset drops all rows and keeps the memory; arrays made before are invalid.
func (s *SystemColumns) Reset() {
	for _, c := range s.all {
		c.Reset()
	}
	s.rows = 0
}

// Arrays gives the columns in the order of SystemFields, without a copy. They are valid until Truncate or Reset.
func (s *SystemColumns) Arrays() []arrow.Array {
	out := make([]arrow.Array, len(s.all))
	for i, c := range s.all {
		out[i] = c.Array()
	}
	return out
}

// Array is one of Arrays.
func (s *SystemColumns) Array(i int) arrow.Array { return s.all[i].Array() }
