package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/jmespath-community/go-jmespath/pkg/interpreter"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"

	"github.com/ledgerlake/ledgerlake/decode"
)

// evaluator runs nodes for one record.
type evaluator struct {
	around
	fields func(mark int) []byte // captured fields
	value  []byte                // the whole value
	buf    []byte                // texts that are made, until the next record
	times  bool                  // times come as text, since the format knows them as such
	caller interpreter.FunctionCaller
}

// typeError says that a function got a value of the wrong type.
type typeError struct{ what string }

func (e *typeError) Error() string { return e.what }

// eval gives the value of a node; it may alias buf and the message.
func (e *evaluator) eval(n *node) (value, error) {
	switch n.op {
	case opField:
		raw := e.fields(n.root)
		for _, name := range n.path {
			raw = member(raw, name)
		}
		return rawValue(raw), nil
	case opMeta:
		return e.around.value(n)
	case opConst:
		return n.value, nil
	case opOr, opAnd:
		v, err := e.eval(n.args[0])
		if err != nil || v.truth() == (n.op == opOr) {
			return v, err
		}
		return e.eval(n.args[1])
	case opNot:
		v, err := e.eval(n.args[0])
		return value{kind: boolean, yes: !v.truth()}, err
	case opCompare:
		return e.compare(n)
	case opTree:
		return e.search(n.tree)
	}
	return e.function(n)
}

// function runs one of the functions. What is missing gives null, unlike in kafka-delta-ingest.
func (e *evaluator) function(n *node) (value, error) {
	v, err := e.eval(n.args[0])
	if err != nil || v.kind == null {
		return value{}, err
	}
	switch n.op {
	case opSubstr:
		return e.substr(n, v)
	case opToNumber:
		return e.toNumber(v), nil
	}
	if v.kind == str && e.times {
		return e.time(n, v)
	}
	if v.kind != number {
		return value{}, &typeError{"the function wants a number"}
	}
	whole := v.whole
	if !v.exact {
		if math.Abs(v.num) >= 1<<62 {
			return value{}, &typeError{"the time is out of range"}
		}
		whole = int64(v.num)
	}
	if n.op == opMillisToMicros {
		if whole > math.MaxInt64/1000 || whole < math.MinInt64/1000 {
			return value{}, &typeError{"the time is out of range"}
		}
		return wholeValue(whole * 1000), nil
	}
	return e.iso8601(whole, n.unit)
}

// time takes a time as it is, where a function would make one of a number: kafka-delta-ingest shows times of Avro as
// numbers, and its transforms turn them into times.
func (e *evaluator) time(n *node, v value) (value, error) {
	var s []byte
	s, e.buf = v.chars(e.buf)
	at, err := time.Parse(time.RFC3339Nano, string(s))
	if err != nil {
		return value{}, &typeError{"the function wants a time"}
	}
	if n.op == opMillisToMicros {
		return wholeValue(at.UnixMicro()), nil
	}
	return e.iso8601(at.UnixMicro(), 1000)
}

// iso8601 writes a time as kafka-delta-ingest does: with as many digits behind the second as it has, by threes.
func (e *evaluator) iso8601(v, unit int64) (value, error) {
	per := int64(1e9) / unit
	sec, frac := v/per, v%per
	if frac < 0 {
		sec, frac = sec-1, frac+per
	}
	const first, last = -62135596800, 253402300799 // years 1 and 9999
	if sec < first || sec > last {
		return value{}, &typeError{"the time is not between the years 1 and 9999"}
	}
	layout, nanos := "2006-01-02T15:04:05Z", frac*unit
	switch {
	case nanos == 0:
	case nanos%1e6 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	default:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	start := len(e.buf)
	e.buf = time.Unix(sec, nanos).UTC().AppendFormat(e.buf, layout)
	return value{kind: str, text: e.buf[start:]}, nil
}

// substr takes characters, as kafka-delta-ingest does: what is below zero is zero.
func (e *evaluator) substr(n *node, v value) (value, error) {
	skip, take := n.skip, n.take
	if take < 0 {
		var err error
		if skip, err = e.count(n.args[1]); err != nil {
			return value{}, err
		}
		if take, err = e.count(n.args[2]); err != nil {
			return value{}, err
		}
	}
	if v.kind != str {
		return value{}, &typeError{"substr wants a string"}
	}
	var s []byte
	s, e.buf = v.chars(e.buf)
	for ; skip > 0 && len(s) > 0; skip-- {
		_, w := utf8.DecodeRune(s)
		s = s[w:]
	}
	end := 0
	for ; take > 0 && end < len(s); take-- {
		_, w := utf8.DecodeRune(s[end:])
		end += w
	}
	return value{kind: str, text: s[:end]}, nil
}

func (e *evaluator) count(n *node) (int64, error) {
	v, err := e.eval(n)
	if err != nil {
		return 0, err
	}
	if v.kind != number {
		return 0, &typeError{"substr wants numbers, as in substr(created, `0`, `10`)"}
	}
	return characters(v), nil
}

// characters is a number of them.
func characters(v value) int64 { return int64(max(0, min(v.num, math.MaxInt32))) }

func (e *evaluator) toNumber(v value) value {
	switch v.kind {
	case number:
		return v
	case str:
		var s []byte
		s, e.buf = v.chars(e.buf)
		if len(s) == 0 || s[0] != '-' && s[0]-'0' > 9 || !json.Valid(s) {
			return value{}
		}
		n := numberValue(bytes.TrimRight(s, " \t\r\n"))
		if n.exact || len(n.raw) <= 15 {
			n.raw = nil // it is written as a float would be
		}
		return n
	}
	return value{}
}

func (e *evaluator) compare(n *node) (value, error) {
	a, err := e.eval(n.args[0])
	if err != nil {
		return value{}, err
	}
	b, err := e.eval(n.args[1])
	if err != nil {
		return value{}, err
	}
	yes := false
	switch n.compare {
	case parsing.TOKEQ:
		yes = e.equal(a, b)
	case parsing.TOKNE:
		yes = !e.equal(a, b)
	default:
		if a.kind != number || b.kind != number {
			return value{}, nil
		}
		yes = ordered(n.compare, order(a, b))
	}
	return value{kind: boolean, yes: yes}, nil
}

func (e *evaluator) equal(a, b value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case boolean:
		return a.yes == b.yes
	case number:
		return order(a, b) == 0
	case str:
		var x, y []byte
		x, e.buf = a.chars(e.buf)
		y, e.buf = b.chars(e.buf)
		return bytes.Equal(x, y)
	case other:
		x, err1 := parseTree(a.raw)
		y, err2 := parseTree(b.raw)
		return err1 == nil && err2 == nil && same(x, y)
	}
	return true
}

// search runs an expression over a tree of the fields that it names.
func (e *evaluator) search(t *tree) (_ value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &typeError{fmt.Sprintf("the expression failed: %v", p)}
		}
	}()
	data := map[string]any{}
	if t.whole && e.value != nil {
		v, err := parseTree(e.value)
		if err != nil {
			return value{}, &typeError{err.Error()}
		}
		if data, _ = v.(map[string]any); data == nil {
			return value{}, &typeError{"the value is no object"}
		}
	}
	for i, name := range t.roots {
		if raw := e.fields(t.marks[i]); raw != nil && !t.whole {
			v, err := parseTree(raw)
			if err != nil {
				return value{}, &typeError{err.Error()}
			}
			data[name] = v
		}
	}
	if t.kafka && e.rec != nil {
		if data["kafka"], err = e.object(); err != nil {
			return value{}, err
		}
	}
	out, err := interpreter.NewInterpreter(data, e.caller, nil).Execute(t.ast, data)
	if err != nil {
		return value{}, &typeError{err.Error()}
	}
	start := len(e.buf)
	if e.buf, err = appendTree(e.buf, out); err != nil {
		return value{}, &typeError{err.Error()}
	}
	return rawValue(e.buf[start:]), nil
}

// parseTree reads JSON as the interpreter wants it. Whole numbers that a float does not hold keep their digits, so
// that what passes through is not changed.
func parseTree(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return floats(v), nil
}

func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.Abs(f) >= exactFloat {
			return v
		}
		return f
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}

// appendTree appends a result as JSON, whole numbers as such.
func appendTree(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return strconv.AppendInt(dst, int64(v), 10), nil
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(dst, "null"...), nil
		}
		return strconv.AppendFloat(dst, v, 'g', -1, 64), nil
	case []any:
		dst = append(dst, '[')
		for i, x := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendTree(dst, x); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		first := true
		for _, k := range slices.Sorted(func(yield func(string) bool) {
			for k := range v {
				if !yield(k) {
					return
				}
			}
		}) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(decode.AppendString(dst, []byte(k)), ':')
			var err error
			if dst, err = appendTree(dst, v[k]); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	raw, err := json.Marshal(v)
	return append(dst, raw...), err
}
