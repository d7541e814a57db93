package where

import (
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Stats are what is known of the values of one column in a set of rows. The zero value is no knowledge.
type Stats struct {
	Rows, Nulls    int64 // counts; NullsKnown says whether Nulls is one
	NullsKnown     bool
	Min, Max       Limit
	MinSet, MaxSet bool
	TimesOff       bool // the limits of times may be off by up to a minute, as some writers have them
}

// Limit is a smallest or largest value. The field that counts is that of the column's type.
type Limit struct {
	Int     int64 // integers, booleans, days, times in the column's unit
	Float   float64
	Bytes   []byte // text; a maximum may be any text that is not less than all values
	Decimal decimal128.Num
}

func (l Limit) value(f form) value {
	return value{form: f, i: l.Int, f: l.Float, b: l.Bytes, d: l.Decimal}
}

// MayMatch says whether the rows can hold one that is kept: false only when that is certain. stats gives what is
// known of a column with its type.
func (b *Bound) MayMatch(stats func(column string, typ arrow.DataType) Stats) bool {
	return b.root.may(stats)
}

func (b *bound) may(stats func(string, arrow.DataType) Stats) bool {
	if b.test != nil {
		return b.test.may(stats(b.test.column, b.test.typ))
	}
	for i := range b.subs {
		if b.subs[i].may(stats) == b.any {
			return b.any
		}
	}
	return !b.any
}

func (t *test) may(s Stats) bool {
	switch {
	case t.op == opNull:
		return !s.NullsKnown || s.Nulls > 0
	case s.NullsKnown && s.Rows > 0 && s.Nulls >= s.Rows:
		return false // all null: no comparison holds
	case t.op == opNotNull, t.op == opNe: // limits say nothing about NaN and cut texts
		return true
	}
	f, _ := formOf(t.typ)
	low, high := s.Min.value(f), s.Max.value(f)
	if s.TimesOff && t.typ.ID() == arrow.TIMESTAMP {
		low.i, high.i = widen(low.i, high.i, t.typ.(*arrow.TimestampType).Unit)
	}
	if s.MaxSet && (t.op == opEq || t.op == opGt || t.op == opGe) {
		if c, ok := high.compare(t.lit); ok && (c < 0 || c == 0 && t.op == opGt && f != formBytes) {
			return false
		}
	}
	if s.MinSet && (t.op == opEq || t.op == opLt || t.op == opLe) {
		if c, ok := low.compare(t.lit); ok && (c > 0 || c == 0 && t.op == opLt) {
			return false
		}
	}
	return true
}

// widen moves limits of times apart by a minute.
func widen(low, high int64, unit arrow.TimeUnit) (int64, int64) {
	by := int64(time.Minute / unit.Multiplier())
	if low < math.MinInt64+by {
		low = math.MinInt64 + by
	}
	if high > math.MaxInt64-by {
		high = math.MaxInt64 - by
	}
	return low - by, high + by
}
