package tiering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// Under Config.Widen a value that is too large for its column ends the session, as a field without a column does under
// Config.Evolve: the column gets the wider type in a version of its own, and the next session reads the record again. Only
// what Delta's type widening has is done, so files that are there stay as they are. If we stop in between, the column is
// wide and the records are read again.

// narrowError ends a session since columns are to get wider types.
type narrowError struct{ columns []narrowColumn }

type narrowColumn struct {
	path     string // of the column
	from, to deltalog.DataType
}

func (e *narrowError) Error() string {
	var text []string
	for _, c := range e.columns {
		text = append(text, c.String())
	}
	return strings.Join(text, "; ")
}

func (c narrowColumn) String() string {
	return fmt.Sprintf("column %s of type %s has no room for values that %s has", c.path, c.from, c.to)
}

// key names the change among those that were declined.
func (c narrowColumn) key() string { return fmt.Sprintf("%s as %s", c.path, c.to) }

// narrow gives what is to become of the column that refused a value; nil when nothing is.
func (s *session) narrow(rec *record.Record, cause error) *narrowError {
	var bad *decode.Error
	if !s.t.cfg.Widen || !errors.As(cause, &bad) || bad.Path == "" {
		return nil
	}
	f, raw := fieldAt(s.snap.Schema(), bad.Path, rec.Value)
	if f == nil || s.fixed(bad.Path) {
		return nil
	}
	to := room(f.Type, raw)
	if to == nil {
		return nil
	}
	c := narrowColumn{path: bad.Path, from: f.Type, to: to}
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.declined[c.key()] {
		return nil
	}
	return &narrowError{[]narrowColumn{c}}
}

// fieldAt finds a column by its path through structs, and what a JSON value has there.
func fieldAt(schema *deltalog.StructType, path string, value json.RawMessage) (*deltalog.StructField, json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil {
		return nil, nil
	}
	for i := range schema.Fields {
		f := &schema.Fields[i]
		if f.Name == path {
			return f, fields[f.Name]
		}
		rest, below := strings.CutPrefix(path, f.Name+".")
		if st, ok := f.Type.(*deltalog.StructType); ok && below {
			if found, raw := fieldAt(st, rest, fields[f.Name]); found != nil {
				return found, raw
			}
		}
	}
	return nil, nil
}

// room gives the type that a column of a type widens to for a JSON value; nil where none does. Whole numbers beyond 64
// bits widen nothing: one of them would make a decimal of a column of numbers for ever.
func room(have deltalog.DataType, raw json.RawMessage) deltalog.DataType {
	text := string(raw)
	if len(text) > 0 && text[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return nil
	}
	number, err := strconv.ParseFloat(text, 64)
	isNumber := err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) && json.Valid([]byte(text))
	if d, ok := have.(deltalog.Decimal); ok && isNumber {
		return moreDigits(d, text)
	}
	switch have {
	case deltalog.Byte, deltalog.Short, deltalog.Integer:
		whole, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err == nil && have != deltalog.Integer && whole == int64(int32(whole)):
			return deltalog.Integer
		case err == nil:
			return deltalog.Long
		case isNumber && strings.ContainsAny(text, ".eE"):
			return deltalog.Double
		}
	case deltalog.Float:
		if isNumber {
			return deltalog.Double
		}
	case deltalog.Date:
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05"} { // fractions are taken too
			if _, err := time.Parse(layout, text); err == nil {
				return deltalog.TimestampNTZ
			}
		}
	}
	return nil
}

// moreDigits gives the decimal that holds what d holds, and a number too; nil when Delta has none.
func moreDigits(d deltalog.Decimal, text string) deltalog.DataType {
	if strings.ContainsAny(text, "eE") {
		return nil
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	scale := max(d.Scale, int32(len(strings.TrimRight(fraction, "0"))))
	precision := max(d.Precision-d.Scale, int32(len(strings.TrimLeft(whole, "0")))) + scale
	if precision > 38 || precision == d.Precision && scale == d.Scale {
		return nil
	}
	return deltalog.Decimal{Precision: precision, Scale: scale}
}

// widen gives columns their wider types, and turns type widening on for the table. A change that cannot be is not asked
// for again: its values are dead letters then (I7).
func (t *Tierer) widen(ctx context.Context, e *narrowError) error {
	snap, err := t.cfg.Table.Refresh(ctx)
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	schema := snap.Schema()
	var wide []narrowColumn
	for _, c := range e.columns {
		if ruled, err := t.constrains(snap, c.path); err != nil {
			return err
		} else if ruled {
			t.keepNarrow(c, "a check constraint or an invariant of the table looks at it")
			continue
		}
		if ways(schema, c.path) > 1 {
			t.keepNarrow(c, "another column has the same name")
			continue
		}
		if next := withType(schema, c.path, c); next != nil { // else somebody has changed the column: the next session sees what is still to be done
			schema, wide = next, append(wide, c)
		}
	}
	if len(wide) == 0 {
		return nil
	}
	c, err := snap.Alter(deltalog.Change{Schema: schema, Set: map[string]string{"delta.enableTypeWidening": "true"}})
	var v deltalog.Version
	if err == nil {
		c.Incarnation = snap.Metadata().ID
		v, err = t.cfg.Change.of(ctx, t.cfg.Table, c)
	}
	var unsupported *deltalog.UnsupportedError
	switch {
	case errors.Is(err, deltalog.ErrMetadataChanged) || errors.Is(err, deltalog.ErrProtocolChanged):
		return nil
	case errors.Is(err, deltalog.ErrInvalidCommit) || errors.As(err, &unsupported):
		return t.widenOne(ctx, wide, err)
	case err != nil:
		return fmt.Errorf("widen: %w: %w", &narrowError{wide}, err)
	}
	for _, c := range wide {
		t.cfg.Logger.Info("a column got a wider type", "topic", t.cfg.Topic, "column", c.path, "was", c.from.String(), "is", c.to.String(), "version", v)
	}
	return nil
}

// widenOne goes on after columns could not be changed together: one of them may be why.
func (t *Tierer) widenOne(ctx context.Context, columns []narrowColumn, why error) error {
	if len(columns) == 1 {
		t.keepNarrow(columns[0], why.Error())
		return nil
	}
	for _, c := range columns {
		if err := t.widen(ctx, &narrowError{[]narrowColumn{c}}); err != nil {
			return err
		}
	}
	return nil
}

// keepNarrow notes a change that cannot be, so that no session asks for it again.
func (t *Tierer) keepNarrow(c narrowColumn, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.declined == nil {
		t.declined = map[string]bool{}
	}
	t.declined[c.key()] = true
	t.cfg.Logger.Warn("a column gets no wider type", "topic", t.cfg.Topic, "column", c.path, "type", c.to.String(), "why", why)
}

// constrains says whether a rule for rows looks at a column: with the wider type it may be one that cannot be looked at
// any more, and the table one that nobody can fill (I7).
func (t *Tierer) constrains(snap *deltalog.Snapshot, path string) (bool, error) {
	columns, err := t.cfg.Table.Schema(snap)
	if err != nil {
		return false, err
	}
	rules := table.NewRules(snap, columns)
	for _, f := range columns.Fields() {
		if (path == f.Name || strings.HasPrefix(path, f.Name+".")) && rules.Constrains(f.Name) {
			return true, nil
		}
	}
	return false, nil
}

// ways counts the columns that a path leads to: names may have dots in them.
func ways(s *deltalog.StructType, path string) (n int) {
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Name == path {
			n++
		}
		rest, below := strings.CutPrefix(path, f.Name+".")
		if st, ok := f.Type.(*deltalog.StructType); ok && below {
			n += ways(st, rest)
		}
	}
	return n
}

// withType gives the schema with the wider type; nil when the column is not what it was.
func withType(s *deltalog.StructType, path string, c narrowColumn) *deltalog.StructType {
	out := &deltalog.StructType{Fields: slices.Clone(s.Fields)}
	for i := range out.Fields {
		f := &out.Fields[i]
		if f.Name == path {
			if f.Type.String() != c.from.String() {
				return nil
			}
			f.Type = c.to
			return out
		}
		rest, below := strings.CutPrefix(path, f.Name+".")
		if st, ok := f.Type.(*deltalog.StructType); ok && below {
			if inner := withType(st, rest, c); inner != nil {
				f.Type = inner
				return out
			}
		}
	}
	return nil
}
