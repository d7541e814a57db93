package table

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/internal/column"
	"github.com/ledgerlake/ledgerlake/record"
)

// WithOrigin adds the columns that a record.Origin fills: those of topics of Pulsar.
func (n Names) WithOrigin() Names {
	n.Ledger, n.Entry, n.Batch, n.Index, n.EventTime, n.Producer = "_ledger", "_entry", "_batch", "_index", "_event_time", "_producer"
	n.Sequence, n.OrderingKey, n.SchemaVersion, n.FirstChunk = "_sequence", "_ordering_key", "_schema_version", "_first_chunk"
	return n
}

// origin says whether any of the columns of an origin is kept.
func (n Names) origin() bool {
	all := n.list()
	for _, name := range all[firstOrigin:behindOrigin] {
		if name != "" {
			return true
		}
	}
	return false
}

// Where the columns of an origin begin among the system columns, and the first that is none of them.
const (
	firstOrigin  = 6
	behindOrigin = firstOrigin + 10
)

// originTypes are the types of these columns in their order.
func originTypes() [10]arrow.DataType {
	p := arrow.PrimitiveTypes
	return [10]arrow.DataType{p.Int64, p.Int64, p.Int32, p.Int64, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		arrow.BinaryTypes.String, p.Int64, arrow.BinaryTypes.Binary, arrow.BinaryTypes.Binary, arrow.BinaryTypes.String}
}

// originColumns collects the columns of origins; nil are not kept.
type originColumns struct {
	ledger, entry, index, sequence              *column.Int64
	batch                                       *column.Int32
	eventTime                                   *column.Timestamp
	producer, orderingKey, schemaVersion, chunk *column.Binary
	o                                           record.Origin
	text                                        []byte
}

// set takes column i of originTypes.
func (c *originColumns) set(i int, col column.Column) {
	switch i {
	case 0:
		c.ledger = col.(*column.Int64)
	case 1:
		c.entry = col.(*column.Int64)
	case 2:
		c.batch = col.(*column.Int32)
	case 3:
		c.index = col.(*column.Int64)
	case 4:
		c.eventTime = col.(*column.Timestamp)
	case 5:
		c.producer = col.(*column.Binary)
	case 6:
		c.sequence = col.(*column.Int64)
	case 7:
		c.orderingKey = col.(*column.Binary)
	case 8:
		c.schemaVersion = col.(*column.Binary)
	case 9:
		c.chunk = col.(*column.Binary)
	}
}

// append adds the row of a record and gives the headers that are the record's own.
func (c *originColumns) append(rec *record.Record) []record.Header {
	headers := rec.Headers
	has := record.OriginOf(rec, &c.o)
	if has {
		headers = headers[1:]
	}
	o := &c.o
	appendInt(c.ledger, o.Ledger, has)
	appendInt(c.entry, o.Entry, has)
	appendInt(c.index, o.Index, has && o.Index >= 0)
	appendInt(c.sequence, o.Sequence, has)
	appendInt(c.batch, o.Batch, has)
	appendInt(c.eventTime, arrow.Timestamp(o.EventTime*1000), has && o.EventTime > 0 && o.EventTime < maxMillis)
	appendOrNull(c.producer, o.Producer, has)
	appendOrNull(c.orderingKey, o.OrderingKey, has)
	appendOrNull(c.schemaVersion, o.SchemaVersion, has)
	c.text = strconv.AppendInt(append(strconv.AppendInt(c.text[:0], o.FirstLedger, 10), ':'), o.FirstEntry, 10)
	appendOrNull(c.chunk, c.text, has && o.FirstLedger >= 0)
	return headers
}

func appendInt[T column.Value](c *column.Fixed[T], v T, ok bool) {
	switch {
	case c == nil:
	case ok:
		c.Append(v)
	default:
		c.AppendNull()
	}
}

func appendOrNull(c *column.Binary, v []byte, ok bool) {
	switch {
	case c == nil:
	case ok:
		appendBytes(c, v)
	default:
		c.AppendNull()
	}
}
