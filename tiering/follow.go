package tiering

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
)

// Values that come with the schema of their writer need not be looked at one by one: under Config.Evolve and Config.Widen
// a schema that a decoder meets for the first time is compared with the table's columns, before its first record is a row. What it
// has more ends the session, as a new field or a large value of plain JSON does.

// declarer remembers which schemas of a decoder need nothing of the table any more. Without a decoder there are none.
type declarer struct {
	decode.Declarer
	last    *arrow.Schema
	settled map[*arrow.Schema]struct{}
}

// maxSettled bounds what is remembered (I8); decoders make a schema anew when they have met too many.
const maxSettled = 1000

// changed says whether the last value had another schema than the one before it.
func (d *declarer) changed() bool { return d.Declarer != nil && d.Declared() != d.last }

// settle notes that the schema of the last value needs nothing of the table.
func (d *declarer) settle(schema *arrow.Schema) {
	if d.settled == nil || len(d.settled) >= maxSettled {
		d.settled = map[*arrow.Schema]struct{}{}
	}
	d.last, d.settled[schema] = schema, struct{}{}
}

// follow ends the session when the schema of the last value has fields or types that the table is to get.
func (s *session) follow(d *declarer) error {
	schema := d.Declared()
	if _, known := d.settled[schema]; known {
		d.last = schema
		return nil
	}
	columns, err := deltalog.FromArrow(schema)
	if err != nil { // no table has such columns
		d.settle(schema)
		return nil
	}
	s.t.keepOwn(columns)
	if s.t.cfg.Evolve {
		if e := s.missing(columns, schema); e != nil {
			return e
		}
	}
	if s.t.cfg.Widen {
		if e := s.narrower(columns); e != nil {
			return e
		}
	}
	d.settle(schema)
	return nil
}

// keepOwn takes the columns out of what values have that values do not fill: those that the log fills (a value may well have a
// field of such a name), and those that a transform drops.
func (t *Tierer) keepOwn(columns *deltalog.StructType) {
	drop := t.cfg.Transform.Dropped()
	columns.Fields = slices.DeleteFunc(columns.Fields, func(f deltalog.StructField) bool {
		return t.cfg.Table.Names.Claims(f.Name) || slices.Contains(drop, f.Name)
	})
}

// missing gives what columns the table lacks of those that a schema declares; nil for none that it can have.
func (s *session) missing(columns *deltalog.StructType, schema *arrow.Schema) *newFieldsError {
	m := newMerger(s.snap, maxEvolvedTo-countFields(s.snap.Schema()))
	m.fields(s.snap.Schema(), columns, "")
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full {
		return nil
	}
	if m.added = slices.DeleteFunc(m.added, func(p string) bool { return t.declined[p] }); len(m.added) == 0 {
		return nil
	}
	return &newFieldsError{paths: m.added, declared: schema}
}

// narrower gives the columns whose type is narrower than the one that a schema declares; nil when there are none.
func (s *session) narrower(columns *deltalog.StructType) *narrowError {
	e := &narrowError{}
	e.compare(s.snap.Schema(), columns, "")
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	e.columns = slices.DeleteFunc(e.columns, func(c narrowColumn) bool { return t.declined[c.key()] || s.fixed(c.path) })
	if len(e.columns) == 0 {
		return nil
	}
	return e
}

// fixed says whether a column keeps its type whatever values have: since its name is in the paths of files, or since the
// log or a transform fills it.
func (s *session) fixed(path string) bool {
	if top, _, _ := strings.Cut(path, "."); s.t.cfg.Table.Names.Claims(top) || s.t.cfg.Table.Names.Claims(path) {
		return true
	}
	if slices.Contains(s.snap.Metadata().PartitionColumns, path) {
		return true
	}
	for _, f := range s.t.cfg.Transform.Set {
		if f.Property == path {
			return true
		}
	}
	return false
}

// compare collects the columns of have that declared has with a type that theirs widens to.
func (e *narrowError) compare(have, declared *deltalog.StructType, path string) {
	for i := range declared.Fields {
		d := &declared.Fields[i]
		f, ok := have.Field(d.Name)
		if !ok {
			continue
		}
		if inner, ok := f.Type.(*deltalog.StructType); ok {
			if st, ok := d.Type.(*deltalog.StructType); ok {
				e.compare(inner, st, path+d.Name+".")
			}
			continue
		}
		if to := common(f.Type, d.Type); to != nil {
			e.columns = append(e.columns, narrowColumn{path: path + d.Name, from: f.Type, to: to})
		}
	}
}

// common gives the type that a column widens to so that it holds what it holds and the values of another type too; nil
// where it holds these already, or no type that it widens to holds both.
func common(have, declared deltalog.DataType) deltalog.DataType {
	if want, ok := declared.(deltalog.Decimal); ok {
		return commonDecimal(have, want)
	}
	whole := map[deltalog.DataType]int{deltalog.Byte: 1, deltalog.Short: 2, deltalog.Integer: 3, deltalog.Long: 4}
	mine, theirs := whole[have], whole[declared]
	switch {
	case mine > 0 && theirs > mine:
		return declared
	case mine > 0 && mine < 4 && (declared == deltalog.Float || declared == deltalog.Double):
		return deltalog.Double
	case have == deltalog.Float && (declared == deltalog.Double || theirs >= 3): // a float has those of 16 bits; a double rounds those of 64 bits, as each column of doubles does
		return deltalog.Double
	case have == deltalog.Date && declared == deltalog.TimestampNTZ:
		return deltalog.TimestampNTZ
	}
	return nil
}

func commonDecimal(have deltalog.DataType, want deltalog.Decimal) deltalog.DataType {
	var digits int32 // in front of the point
	scale := want.Scale
	switch d := have.(type) {
	case deltalog.Decimal:
		digits, scale = d.Precision-d.Scale, max(scale, d.Scale)
	case deltalog.Primitive:
		digits = map[deltalog.Primitive]int32{deltalog.Byte: 10, deltalog.Short: 10, deltalog.Integer: 10, deltalog.Long: 20}[d]
		if digits == 0 {
			return nil
		}
	default:
		return nil
	}
	to := deltalog.Decimal{Precision: max(digits, want.Precision-want.Scale) + scale, Scale: scale}
	if to.Precision > 38 || to == have {
		return nil
	}
	return to
}
