package reprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// Expressions is a Transform, for one goroutine, by expressions over the fields of a value, in the language of expr-lang.org. A field
// that a value does not have is nil. The coordinates are there as _partition, _offset, _timestamp (ms) and _key.
type Expressions struct {
	where   *vm.Program // nil: all
	keep    []string    // nil: all
	columns []compiled
	uses    map[string]bool // fields that the expressions look at; nil: any
	usual   bool            // the columns' names are written as they are

	machine vm.VM
	object  object
	env     map[string]any // what they see of the record in work
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
	e.usual = !slices.ContainsFunc(e.columns, func(c compiled) bool {
		return slices.ContainsFunc([]byte(c.name), func(b byte) bool { return !plain(b) })
	})
	e.look()
	return e.clone(), nil
}

// clone gives one for another goroutine.
func (e *Expressions) clone() *Expressions {
	return &Expressions{where: e.where, keep: e.keep, columns: e.columns, uses: e.uses, usual: e.usual,
		env: map[string]any{}, object: object{names: map[string]string{}}}
}

// look finds the fields that the expressions look at.
func (e *Expressions) look() {
	e.uses = map[string]bool{}
	for _, p := range append([]compiled{{"", e.where}}, e.columns...) {
		if p.value != nil {
			node := p.value.Node()
			ast.Walk(&node, e)
		}
	}
	if e.uses["$env"] {
		e.uses = nil // which are not in the text
	}
}

// Visit is for look.
func (e *Expressions) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		e.uses[id.Value] = true
	}
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
	if !e.usual || !e.object.cut(r.Value) {
		if err := e.object.decode(r.Value); err != nil {
			return nil, false, fmt.Errorf("the value is no JSON object: %w", err)
		}
	}
	if err := e.see(r); err != nil {
		return nil, false, err
	}
	if e.where != nil {
		yes, err := e.machine.Run(e.where, e.env)
		if err != nil {
			return nil, false, fmt.Errorf("where: %w", err)
		}
		if yes != true {
			return nil, false, nil
		}
	}
	if e.keep != nil {
		e.object.fields = slices.DeleteFunc(e.object.fields, func(f field) bool { return !slices.Contains(e.keep, f.name) })
	}
	for _, c := range e.columns {
		v, err := e.machine.Run(c.value, e.env)
		if err == nil {
			var text []byte
			if text, err = marshal(v); err == nil {
				e.object.set(c.name, text)
			}
		}
		if err != nil {
			return nil, false, fmt.Errorf("column %s: %w", c.name, err)
		}
	}
	value, err = e.object.appendTo(make([]byte, 0, len(r.Value)+64)) // a field that no column replaces keeps its digits
	return value, err == nil, err
}

// see makes what the expressions see of a record.
func (e *Expressions) see(r *Record) error {
	clear(e.env)
	for _, f := range e.object.fields {
		if e.uses != nil && !e.uses[f.name] {
			continue
		}
		v, err := valueOf(f.text)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.name, err)
		}
		e.env[f.name] = v
	}
	e.env["_partition"], e.env["_offset"], e.env["_timestamp"], e.env["_key"] = int(r.Partition), int(r.Offset), int(r.Timestamp), string(r.Key)
	return nil
}

func marshal(v any) ([]byte, error) {
	if n, ok := v.(int); ok {
		return strconv.AppendInt(nil, int64(n), 10), nil
	}
	return json.Marshal(v)
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
