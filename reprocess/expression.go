package reprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// Expressions is a Transform by expressions over the fields of a value, in the language of expr-lang.org. A field
// that a value does not have is nil. The coordinates are there as _partition, _offset, _timestamp (ms) and _key.
type Expressions struct {
	where   *vm.Program // nil: all
	keep    []string    // nil: all
	columns []compiled
}

type compiled struct {
	name  string
	value *vm.Program
}

// CompileExpressions checks the expressions. They know no types, as values differ; an error that shows only when a
// record is there makes this record a dead letter.
func CompileExpressions(where string, keep []string, columns []Column) (*Expressions, error) {
	e := &Expressions{keep: keep}
	options := []expr.Option{expr.Env(map[string]any{}), expr.AllowUndefinedVariables()}
	if where != "" {
		p, err := expr.Compile(where, append(options, expr.AsBool())...)
		if err != nil {
			return nil, fmt.Errorf("%w: where: %w", ErrSpec, err)
		}
		e.where = p
	}
	for _, c := range columns {
		p, err := expr.Compile(c.Value, options...)
		if err != nil {
			return nil, fmt.Errorf("%w: column %s: %w", ErrSpec, c.Name, err)
		}
		e.columns = append(e.columns, compiled{c.Name, p})
	}
	return e, nil
}

// Apply implements Transform.
func (e *Expressions) Apply(_ context.Context, in []Record) ([]Result, error) {
	out := make([]Result, len(in))
	for i := range in {
		value, ok, err := e.one(&in[i])
		out[i] = Result{Value: value, Drop: !ok && err == nil, Err: err}
	}
	return out, nil
}

// Close implements Transform.
func (*Expressions) Close() error { return nil }

func (e *Expressions) one(r *Record) (value []byte, ok bool, err error) {
	fields, raw, err := decodeFields(r.Value)
	if err != nil {
		return nil, false, fmt.Errorf("the value is no JSON object: %w", err)
	}
	env := fields
	env["_partition"], env["_offset"], env["_timestamp"], env["_key"] = int(r.Partition), int(r.Offset), int(r.Timestamp), string(r.Key)
	if e.where != nil {
		yes, err := expr.Run(e.where, env)
		if err != nil {
			return nil, false, fmt.Errorf("where: %w", err)
		}
		if yes != true {
			return nil, false, nil
		}
	}
	if e.keep != nil {
		for name := range raw {
			if !slices.Contains(e.keep, name) {
				delete(raw, name)
			}
		}
	}
	for _, c := range e.columns {
		v, err := expr.Run(c.value, env)
		if err == nil {
			raw[c.name], err = json.Marshal(v)
		}
		if err != nil {
			return nil, false, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	value, err = json.Marshal(raw) // a field that no column replaces keeps its digits
	return value, err == nil, err
}

// decodeFields gives the fields as expressions see them, whole numbers whole, and as they are written.
func decodeFields(value []byte) (map[string]any, map[string]json.RawMessage, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(value, &raw); err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return nil, nil, errors.New("want one object")
	}
	fields := make(map[string]any, len(raw)+4)
	for name, text := range raw {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, nil, err
		}
		fields[name] = numbers(v)
	}
	return fields, raw, nil
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= math.MinInt && n <= math.MaxInt {
			return int(n)
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
