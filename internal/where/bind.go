package where

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Bound is a filter whose literals have the types of its columns.
type Bound struct {
	root  bound
	names []string
}

type bound struct {
	test *test
	any  bool
	subs []bound
}

// test is a leaf with its literal read.
type test struct {
	column string
	typ    arrow.DataType
	op     op
	lit    value
}

// value is a literal, a bound of statistics or one row, in the form that values of a type are compared in.
type value struct {
	form form
	i    int64 // integers, booleans, times in the unit of the column, days
	f    float64
	b    []byte
	d    decimal128.Num
}

type form int8

const (
	formInt form = iota
	formFloat
	formBytes
	formDecimal
)

// compare gives the order of two values of one form; false when there is none, as with NaN.
func (v value) compare(w value) (int, bool) {
	switch v.form {
	case formFloat:
		if v.f != v.f || w.f != w.f {
			return 0, false
		}
		return cmp.Compare(v.f, w.f), true
	case formBytes:
		return bytes.Compare(v.b, w.b), true
	case formDecimal:
		return v.d.Cmp(w.d), true
	}
	return cmp.Compare(v.i, w.i), true
}

// holds says whether a value that is not null passes.
func (t *test) holds(v value) bool {
	if t.op == opNull || t.op == opNotNull {
		return t.op == opNotNull
	}
	c, ok := v.compare(t.lit)
	if !ok {
		return t.op == opNe
	}
	switch t.op {
	case opEq:
		return c == 0
	case opNe:
		return c != 0
	case opLt:
		return c < 0
	case opLe:
		return c <= 0
	case opGt:
		return c > 0
	}
	return c >= 0
}

// Bind looks the columns up and reads the literals as values of their types.
func (f *Filter) Bind(schema *arrow.Schema) (*Bound, error) {
	root, err := bindNode(&f.root, schema)
	if err != nil {
		return nil, err
	}
	return &Bound{root: root, names: f.Columns()}, nil
}

// Columns names the columns that rows must have.
func (b *Bound) Columns() []string { return b.names }

func bindNode(n *node, schema *arrow.Schema) (bound, error) {
	if n.leaf != nil {
		t, err := bindLeaf(n.leaf, schema)
		return bound{test: t}, err
	}
	out := bound{any: n.any}
	for i := range n.subs {
		s, err := bindNode(&n.subs[i], schema)
		if err != nil {
			return bound{}, err
		}
		out.subs = append(out.subs, s)
	}
	return out, nil
}

func bindLeaf(l *leaf, schema *arrow.Schema) (*test, error) {
	fields, ok := schema.FieldsByName(l.column)
	if !ok || len(fields) != 1 {
		return nil, fmt.Errorf("%w: there is no column %q; there are %s", ErrSyntax, l.column, columnsOf(schema))
	}
	t := &test{column: l.column, typ: fields[0].Type, op: l.op}
	if l.op == opNull || l.op == opNotNull {
		return t, nil
	}
	if _, ok := formOf(t.typ); !ok {
		return nil, fmt.Errorf("%w: column %q of type %s can only be compared with NULL", ErrSyntax, l.column, t.typ)
	}
	var err error
	if t.lit, err = literal(l.lit, t.typ); err != nil {
		return nil, fmt.Errorf("%w: column %q of type %s: %w", ErrSyntax, l.column, t.typ, err)
	}
	if t.lit.form == formFloat && integer(t.typ) {
		t.round()
	}
	return t, nil
}

func integer(t arrow.DataType) bool {
	f, ok := formOf(t)
	return ok && f == formInt && arrow.IsInteger(t.ID())
}

// round turns the comparison of integers with a fraction, or with a number beyond them, into one with an integer.
func (t *test) round() {
	x := t.lit.f
	switch {
	case x >= math.MaxInt64:
		t.beyond(1)
	case x < math.MinInt64:
		t.beyond(-1)
	case x == math.Trunc(x):
		t.lit = value{form: formInt, i: int64(x)}
	case t.op == opLt, t.op == opLe:
		t.op, t.lit = opLe, value{form: formInt, i: int64(math.Floor(x))}
	case t.op == opGt, t.op == opGe:
		t.op, t.lit = opGe, value{form: formInt, i: int64(math.Ceil(x))}
	default:
		t.beyond(1) // equal to no integer
	}
}

// beyond makes the comparison one with a number above (or below) all integers.
func (t *test) beyond(side int) {
	less := side > 0
	always := t.op == opNe || less && (t.op == opLt || t.op == opLe) || !less && (t.op == opGt || t.op == opGe)
	if always {
		t.op = opNotNull
		return
	}
	t.op, t.lit = opLt, value{form: formInt, i: math.MinInt64} // never
}

// formOf says how values of a type are compared.
func formOf(t arrow.DataType) (form, bool) {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.BOOL, arrow.DATE32, arrow.TIMESTAMP:
		return formInt, true
	case arrow.FLOAT32, arrow.FLOAT64:
		return formFloat, true
	case arrow.STRING, arrow.BINARY:
		return formBytes, true
	case arrow.DECIMAL128:
		return formDecimal, true
	}
	return 0, false
}

func literal(t token, typ arrow.DataType) (value, error) {
	number := t.kind == kindNumber
	wrong := fmt.Errorf("%q at position %d does not fit", t.text, t.at+1)
	switch typ := typ.(type) {
	case *arrow.BooleanType:
		if t.kind != kindWord {
			return value{}, wrong
		}
		v := value{form: formInt}
		if strings.EqualFold(t.text, "TRUE") {
			v.i = 1
		}
		return v, nil
	case *arrow.StringType, *arrow.BinaryType:
		if t.kind != kindText {
			return value{}, wrong
		}
		return value{form: formBytes, b: []byte(t.text)}, nil
	case *arrow.Date32Type:
		at, err := time.Parse(time.DateOnly, t.text)
		if t.kind != kindText || err != nil {
			return value{}, fmt.Errorf("%w: want a date as '2026-01-31'", wrong)
		}
		return value{form: formInt, i: int64(arrow.Date32FromTime(at))}, nil
	case *arrow.TimestampType:
		at, err := parseTime(t.text)
		if t.kind != kindText || err != nil {
			return value{}, fmt.Errorf("%w: want a time as '2026-01-31T12:00:00Z' or a date", wrong)
		}
		v, err := arrow.TimestampFromTime(at, typ.Unit)
		return value{form: formInt, i: int64(v)}, err
	case *arrow.Decimal128Type:
		if !number {
			return value{}, wrong
		}
		return decimalLiteral(t.text, typ, wrong)
	}
	if !number {
		return value{}, wrong
	}
	f, _ := formOf(typ)
	if i, err := strconv.ParseInt(t.text, 10, 64); err == nil && f == formInt {
		return value{form: formInt, i: i}, nil
	}
	x, err := strconv.ParseFloat(t.text, 64)
	if err != nil {
		return value{}, wrong
	}
	return value{form: formFloat, f: x}, nil
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time", s)
}

// decimalLiteral reads a number that must be a value of the type: more digits are refused, not rounded.
func decimalLiteral(s string, typ *arrow.Decimal128Type, wrong error) (value, error) {
	text := strings.TrimPrefix(s, "+")
	if strings.ContainsAny(text, "eExX_") {
		return value{}, wrong
	}
	if dot := strings.IndexByte(text, '.'); dot >= 0 && len(strings.TrimRight(text[dot+1:], "0")) > int(typ.Scale) {
		return value{}, fmt.Errorf("%w: the column has %d decimals", wrong, typ.Scale)
	}
	d, err := decimal128.FromString(text, 38, typ.Scale)
	if err != nil {
		return value{}, wrong
	}
	return value{form: formDecimal, d: d}, nil
}

// columnsOf names the first columns, for an error.
func columnsOf(schema *arrow.Schema) string {
	const most = 50
	var names []string
	for i := range min(schema.NumFields(), most) {
		names = append(names, schema.Field(i).Name)
	}
	if schema.NumFields() > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
