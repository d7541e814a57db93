package tiering

import (
	"errors"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// A table may have rules for its rows: values of partition columns that its log can hold, columns that may not be
// null, check constraints and invariants. They are looked at after each batch, a column at a time; when a row breaks one, the rows of the batch are
// taken back and it is decoded again with those records as dead letters (I7).

// errRedo says that a batch is to be decoded again, since some of its rows broke a rule.
var errRedo = errors.New("rows of the batch break a rule of the table")

// mark is where a worker stood at the start of a batch, or behind the rows of it that are encoded already.
type mark struct {
	rows     int           // in the cursor's columns
	row      record.Offset // of the cursor's trail
	next     record.Offset
	records  int64
	out      int64 // rows
	bytes    int64
	dead     int
	deadSize int64
	filtered int64
	offsets  []record.Offset          // of the rows since
	broken   map[record.Offset]string // the records to bury, and why
}

// planRules finds out whether the table has rules.
func (s *session) planRules(dec decode.Decoder) error {
	system := table.SystemFields(s.t.cfg.Table.Names)
	s.rules = table.NewRules(s.snap, arrow.NewSchema(append(system, s.payload.Fields()...), nil))
	if err := s.rules.Unkept(); err != nil {
		return err
	}
	for i := range system {
		s.ruled = append(s.ruled, source{system: true, index: i})
	}
	for i := range s.payload.NumFields() {
		s.ruled = append(s.ruled, source{index: i})
	}
	if s.rules.Empty() {
		return nil
	}
	t, ok := dec.(decode.Truncater)
	if c, asks := t.(interface{ CanTruncate() bool }); !ok || asks && !c.CanTruncate() {
		return &deltalog.UnsupportedError{Write: true, Features: []string{"partition columns of text or time, NOT NULL columns or constraints, with values of this format"}}
	}
	return nil
}

// setMark notes where the worker stands.
func (w *worker) setMark(c *cursor, next record.Offset) {
	m := &w.mark
	m.rows, m.next, m.records, m.out, m.bytes = c.rows.sys.Rows(), next, w.out.records, w.out.rows, w.out.bytes
	m.row, m.dead, m.deadSize, m.filtered, m.offsets = c.trail.row, len(w.out.dead), w.deadSize, w.out.filtered, m.offsets[:0]
}

// checkRules looks at the rows since the mark. With errRedo they are gone, and the records that broke a rule known.
func (w *worker) checkRules(c *cursor) error {
	from, to := w.mark.rows, c.rows.sys.Rows()
	if from == to {
		return nil
	}
	bad := w.s.broken(c.rows, from, to)
	if len(bad) == 0 {
		return nil
	}
	if w.mark.broken == nil {
		w.mark.broken = map[record.Offset]string{}
	}
	for row, why := range bad {
		w.mark.broken[w.mark.offsets[row-from]] = why
	}
	w.rewind(c)
	return errRedo
}

// rewind takes back all since the mark.
func (w *worker) rewind(c *cursor) {
	m := &w.mark
	c.rows.sys.Truncate(m.rows)
	c.rows.dec.(decode.Truncater).Truncate(m.rows)
	clear(w.out.dead[m.dead:])
	w.out.records, w.out.rows, w.out.bytes, w.out.dead, w.out.filtered = m.records, m.out, m.bytes, w.out.dead[:m.dead], m.filtered
	w.deadSize, m.offsets, c.trail.row = m.deadSize, m.offsets[:0], m.row
}

// broken says of the rows [from, to) that the table cannot have why.
func (s *session) broken(r *rows, from, to int) map[int]string {
	cols := make([]arrow.Array, len(s.ruled))
	for _, i := range s.rules.Needs() {
		cols[i] = array.NewSlice(r.column(s.ruled[i]), int64(from), int64(to))
	}
	s.rules.Fill(cols, 0, to-from)
	bad := map[int]string{}
	for row, why := range s.rules.Broken(cols, 0, to-from) {
		bad[from+row] = why
	}
	return bad
}

// computed gives the rows from one on of all columns in the order of the rules', those that the table computes among them; nil
// when it computes none. Earlier rows cost nothing: this is asked after each batch.
func (s *session) computed(r *rows, from int) []arrow.Array {
	if s.rules == nil || !s.rules.Computes() {
		return nil
	}
	cols := append(slices.Clone(r.sys.Arrays()), r.dec.Arrays()...)
	if from > 0 {
		for i, c := range cols {
			cols[i] = array.NewSlice(c, int64(from), int64(r.sys.Rows()))
		}
	}
	s.rules.Fill(cols, 0, r.sys.Rows()-from)
	return cols
}

// at gives the column of a source out of all.
func (s *session) at(all []arrow.Array, from source) arrow.Array {
	return all[slices.Index(s.ruled, from)]
}

// brokenRule is the error of a record that broke a rule when it was decoded before; nil when it did not.
func (m *mark) brokenRule(o record.Offset) error {
	if why, ok := m.broken[o]; ok {
		return errors.New(why)
	}
	return nil
}
