package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
)

// namesProperty is the table property that keeps a mapping of system columns that is not the default one.
const namesProperty = "ledgerlake.columns"

// Names are the names of the system columns. An empty one says that the table has no such column. Those of a table that
// somebody else fills may be fields of structs: see HoldsInner.
type Names struct {
	Partition string `json:"partition,omitempty"` // int
	Offset    string `json:"offset,omitempty"`    // long
	Timestamp string `json:"timestamp,omitempty"` // timestamp, of millisecond precision in the log
	Key       string `json:"key,omitempty"`       // binary
	Headers   string `json:"headers,omitempty"`   // array<struct<key string, value binary>>
	Value     string `json:"value,omitempty"`     // binary: the record's value as it was

	// Of logs that are not Kafka's: see record.Origin.
	Ledger        string `json:"ledger,omitempty"`        // long
	Entry         string `json:"entry,omitempty"`         // long
	Batch         string `json:"batch,omitempty"`         // int
	Index         string `json:"index,omitempty"`         // long
	EventTime     string `json:"eventTime,omitempty"`     // timestamp
	Producer      string `json:"producer,omitempty"`      // string
	Sequence      string `json:"sequence,omitempty"`      // long
	OrderingKey   string `json:"orderingKey,omitempty"`   // binary
	SchemaVersion string `json:"schemaVersion,omitempty"` // binary
	FirstChunk    string `json:"firstChunk,omitempty"`    // string: LEDGER:ENTRY

	// Topic tells the topics of a table apart that has rows of several: a partition column. See TopicColumn.
	Topic string `json:"topic,omitempty"` // string
}

// DefaultNames are the names of the system columns in tables that this program makes.
func DefaultNames() Names {
	return Names{Partition: "_partition", Offset: "_offset", Timestamp: "_timestamp", Key: "_key", Headers: "_headers", Value: "_value"}
}

// Ordered says whether the rows have a place in the log: a partition and an offset.
func (n Names) Ordered() bool { return n.Partition != "" && n.Offset != "" }

// systemTypes are the types of the system columns in their order.
func systemTypes() [17]arrow.DataType {
	o := originTypes()
	header := arrow.StructOf(
		arrow.Field{Name: "key", Type: arrow.BinaryTypes.String, Nullable: true},
		arrow.Field{Name: "value", Type: arrow.BinaryTypes.Binary, Nullable: true},
	)
	return [17]arrow.DataType{
		arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"},
		arrow.BinaryTypes.Binary, arrow.ListOfField(arrow.Field{Name: "element", Type: header, Nullable: true}), arrow.BinaryTypes.Binary,
		o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], o[9], arrow.BinaryTypes.String,
	}
}

func (n Names) list() [17]string {
	return [17]string{n.Partition, n.Offset, n.Timestamp, n.Key, n.Headers, n.Value,
		n.Ledger, n.Entry, n.Batch, n.Index, n.EventTime, n.Producer, n.Sequence, n.OrderingKey, n.SchemaVersion, n.FirstChunk, n.Topic}
}

func (n *Names) pointers() [17]*string {
	return [17]*string{&n.Partition, &n.Offset, &n.Timestamp, &n.Key, &n.Headers, &n.Value,
		&n.Ledger, &n.Entry, &n.Batch, &n.Index, &n.EventTime, &n.Producer, &n.Sequence, &n.OrderingKey, &n.SchemaVersion, &n.FirstChunk, &n.Topic}
}

// Has says whether a column is one of the system columns.
func (n Names) Has(column string) bool {
	for _, name := range n.list() {
		if name != "" && name == column {
			return true
		}
	}
	return false
}

// HasFold is Has without regard to the case of letters, as Delta's readers look for columns.
func (n Names) HasFold(column string) bool {
	list := n.list()
	return slices.ContainsFunc(list[:], func(name string) bool { return name != "" && strings.EqualFold(name, column) })
}

// Claims says whether a column of the top level is a system column, or the struct that has one in it.
func (n Names) Claims(column string) bool {
	for _, name := range n.list() {
		if name != "" && (name == column || strings.HasPrefix(name, column+".")) {
			return true
		}
	}
	return false
}

// SystemFields gives the system columns that the names keep, in their order. All are nullable: other engines
// treat a table whose columns are required as one with constraints.
func SystemFields(n Names) []arrow.Field {
	types := systemTypes()
	fields := make([]arrow.Field, 0, len(types))
	for i, name := range n.list() {
		if name != "" {
			fields = append(fields, arrow.Field{Name: name, Type: types[i], Nullable: true})
		}
	}
	return fields
}

func (n Names) validate() error {
	seen := map[string]bool{}
	for _, name := range n.list() {
		if name != "" && seen[name] {
			return fmt.Errorf("two system columns have the name %q", name)
		}
		seen[name] = true
	}
	return nil
}

// namesOf finds the system columns of an existing table. Names that the caller or the table's property gives
// must be there, and the caller's with the right type; the default ones are used as far as they are. Those of ours that
// have another type are told.
func namesOf(schema *arrow.Schema, meta *deltalog.Metadata, asked Names) (Names, *SpoiltError, error) {
	strict, ours := asked != Names{}, false
	if raw, ok := meta.Configuration[namesProperty]; ok && !strict {
		if err := json.Unmarshal([]byte(raw), &asked); err != nil {
			return Names{}, nil, fmt.Errorf("table property %s: %w", namesProperty, err)
		}
		strict, ours = true, true
	} else if !strict {
		asked = DefaultNames()
	}
	types := systemTypes()
	spoilt, found := &SpoiltError{}, 0
	for i, name := range asked.pointers() {
		if *name == "" {
			continue
		}
		way := wayTo(schema.Fields(), *name)
		switch {
		case way != nil && sameType(fieldOn(schema.Fields(), way).Type, types[i]):
			found++
			continue
		case strict && (way == nil || !ours):
			return Names{}, nil, fmt.Errorf("the table has no column %q of type %s", *name, types[i])
		case way != nil:
			spoilt.Columns = append(spoilt.Columns, fmt.Sprintf("%s is of type %s, and the log fills it with %s", *name, fieldOn(schema.Fields(), way).Type, types[i]))
		}
		*name = ""
	}
	if spoilt.Columns == nil || !ours && found < oursFrom {
		spoilt = nil
	}
	if asked.Topic != "" && !slices.Contains(meta.PartitionColumns, asked.Topic) {
		return Names{}, nil, fmt.Errorf("column %q tells topics apart and is no partition column: files of one topic each are what keeps them apart", asked.Topic)
	}
	return asked, spoilt, asked.validate()
}

// oursFrom is how many of the six usual system columns a table has that is taken for one of ours: somebody else's may well have
// a column _key, of whatever type.
const oursFrom = 4

// sameType compares types without regard to what may be null.
func sameType(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.ListType:
		return sameType(a.Elem(), b.(*arrow.ListType).Elem())
	case *arrow.StructType:
		o := b.(*arrow.StructType)
		if a.NumFields() != o.NumFields() {
			return false
		}
		for i, f := range a.Fields() {
			if f.Name != o.Field(i).Name || !sameType(f.Type, o.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return arrow.TypeEqual(a, b)
}
