package expr

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Bound is an expression whose columns were found and whose types go together.
type Bound struct {
	text    string
	root    node
	typ     typ
	columns []int
	held    int // values that an evaluation keeps for it
}

// node gives the value for the row at hand.
type node interface {
	eval(e *Evaluation) value
}

// String gives the text of the expression.
func (b *Bound) String() string { return b.text }

// Columns gives the columns of the schema that the expression looks at, ascending.
func (b *Bound) Columns() []int { return b.columns }

// Bind finds the columns, by names whose case does not count, and checks that the types go together.
func (e *Expr) Bind(schema *arrow.Schema) (*Bound, error) {
	b := &binder{schema: schema}
	n, t, err := b.bind(e.root)
	if err != nil {
		return nil, err
	}
	slices.Sort(b.columns)
	return &Bound{text: e.text, root: n, typ: t, columns: slices.Compact(b.columns), held: b.held}, nil
}

// Condition binds an expression that is true or not.
func (e *Expr) Condition(schema *arrow.Schema) (*Bound, error) {
	b, err := e.Bind(schema)
	if err == nil && b.typ.sort != boolean && b.typ.sort != null {
		err = fmt.Errorf("%w: it is a %s, not a condition", ErrUnsupported, b.typ)
	}
	return b, err
}

type binder struct {
	schema  *arrow.Schema
	columns []int
	nodes   int
	held    int
}

// bind binds each node of the tree once, so that its work, and that of a row, grow with the text alone.
func (b *binder) bind(n *syntax) (node, typ, error) {
	if b.nodes++; b.nodes > maxNodes {
		return nil, typ{}, fmt.Errorf("%w: it has more than %d operators, functions, columns and literals", ErrUnsupported, maxNodes)
	}
	switch n.op {
	case "lit":
		return literal(n)
	case "col":
		return b.column(n)
	}
	args, types := make([]node, len(n.args)), make([]typ, len(n.args))
	for i, a := range n.args {
		var err error
		if args[i], types[i], err = b.bind(a); err != nil {
			return nil, typ{}, err
		}
	}
	switch n.op {
	case "and", "or", "not":
		return logic(n.op, args, types)
	case "=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=":
		return comparison(n.op, args, types)
	case "in":
		return membership(args, types)
	case "between":
		return b.between(args, types)
	case "isnull":
		return &nullTest{args[0], true}, boolType, nil
	case "like":
		return likes(args, types)
	case "case":
		return cases(args, types)
	case "switch":
		return b.switched(args, types)
	case "cast":
		to, err := typeNamed(n.sort)
		if err != nil {
			return nil, typ{}, err
		}
		return castTo(args[0], types[0], to)
	case "+", "-", "*", "/", "%", "div", "negative":
		return arithmetic(n.op, args, types)
	case "||":
		return concatenated(args, types)
	}
	return b.function(n.name, args, types)
}

// literal reads a literal.
func literal(n *syntax) (node, typ, error) {
	switch n.sort {
	case "null":
		return constant(none), typ{}, nil
	case "true", "false":
		return constant(truth(n.sort == "true")), boolType, nil
	case "text":
		return constant(value{s: n.lit.text}), textType, nil
	case "number":
		return number(n.lit)
	}
	to, err := typeNamed(n.sort)
	if err != nil {
		return nil, typ{}, err
	}
	return castTo(constant(value{s: n.lit.text}), textType, to)
}

func number(t token) (node, typ, error) {
	wrong := fmt.Errorf("%w: the number %s at position %d", ErrUnsupported, t.text, t.at+1)
	text := strings.ToLower(t.text)
	suffix := text[len(strings.TrimRight(text, "lsydbf")):]
	body := strings.TrimSuffix(text, suffix)
	switch suffix {
	case "":
	case "l", "s", "y":
		bits := map[string]int{"l": 64, "s": 16, "y": 8}[suffix]
		i, err := strconv.ParseInt(body, 10, bits)
		if err != nil {
			return nil, typ{}, wrong
		}
		return constant(value{i: i}), typ{sort: integer, bits: bits}, nil
	case "d", "f":
		bits := map[string]int{"d": 64, "f": 32}[suffix]
		f, err := strconv.ParseFloat(body, bits)
		if err != nil || strings.ContainsAny(body, "xp_") {
			return nil, typ{}, wrong
		}
		return constant(value{f: f}), typ{sort: float, bits: bits}, nil
	case "bd":
		return exact(body, wrong)
	default:
		return nil, typ{}, wrong
	}
	if i, err := strconv.ParseInt(body, 10, 64); err == nil && !strings.Contains(body, "_") {
		if fits(i, 32) {
			return constant(value{i: i}), intType, nil
		}
		return constant(value{i: i}), longType, nil
	}
	if strings.Contains(body, "e") {
		f, err := strconv.ParseFloat(body, 64)
		if err != nil || strings.ContainsAny(body, "xp_") {
			return nil, typ{}, wrong
		}
		return constant(value{f: f}), doubleType, nil
	}
	return exact(body, wrong)
}

// exact reads a decimal, whose type has the digits that are written.
func exact(body string, wrong error) (node, typ, error) {
	d, s, ok := parseDecimal(body)
	if !ok {
		return nil, typ{}, wrong
	}
	p := max(int32(len(new(big.Int).Abs(d).String())), s)
	if p > 38 {
		return nil, typ{}, wrong
	}
	return constant(value{d: d}), typ{sort: decimal, p: p, s: s}, nil
}

// parseDecimal reads digits with one point or none.
func parseDecimal(s string) (d *big.Int, scale int32, ok bool) {
	sign := strings.TrimLeft(s, "+-")
	if len(s)-len(sign) > 1 {
		return nil, 0, false
	}
	whole, fraction, _ := strings.Cut(sign, ".")
	all := whole + fraction
	if all == "" || strings.Trim(all, "0123456789") != "" || len(all) > 100 {
		return nil, 0, false
	}
	d, ok = new(big.Int).SetString(all, 10)
	if ok && strings.HasPrefix(s, "-") {
		d.Neg(d)
	}
	return d, int32(len(fraction)), ok
}

// column finds a column, and fields of structs in it.
func (b *binder) column(n *syntax) (node, typ, error) {
	name := strings.Join(n.path, ".")
	at := -1
	for i, f := range b.schema.Fields() {
		if strings.EqualFold(f.Name, n.path[0]) {
			if at >= 0 {
				return nil, typ{}, fmt.Errorf("%w: the column %s is there twice", ErrUnsupported, name)
			}
			at = i
		}
	}
	if at < 0 {
		return nil, typ{}, fmt.Errorf("%w: there is no column %s", ErrUnsupported, name)
	}
	c := &column{index: at}
	t := typeOf(b.schema.Field(at).Type)
	for _, field := range n.path[1:] {
		i := -1
		if t.union != nil {
			i = slices.IndexFunc(t.union.Fields(), func(f arrow.Field) bool { return strings.EqualFold(f.Name, field) })
		}
		if i < 0 {
			return nil, typ{}, fmt.Errorf("%w: there is no field %s", ErrUnsupported, name)
		}
		c.fields = append(c.fields, i)
		t = typeOf(t.union.Field(i).Type)
	}
	if t.sort == other {
		t.union = nil
	}
	b.columns = append(b.columns, at)
	return c, t, nil
}

// both brings two operands to one type. A text literal beside another type is read as one of it.
func both(args []node, types []typ) ([]node, typ, error) {
	out := slices.Clone(args)
	t := types[0]
	for i := 1; i < len(args); i++ {
		next := types[i]
		var err error
		switch {
		case next.sort == text && t.sort != text && t.sort != null && isConstant(args[i]):
			continue
		case t.sort == text && next.sort != text && next.sort != null && !slices.ContainsFunc(args[:i], func(n node) bool { return !isConstant(n) }):
			t = next
		default:
			if t, err = common(t, next); err != nil {
				return nil, typ{}, err
			}
		}
	}
	for i := range out {
		var err error
		if out[i], err = converted(out[i], types[i], t); err != nil {
			return nil, typ{}, err
		}
	}
	return out, t, nil
}

// converted casts where it has to.
func converted(n node, from, to typ) (node, error) {
	if from == to || from.sort == null {
		return n, nil
	}
	if to.sort == decimal && to.p > 38 { // only to compare
		to.p = 77
	}
	n, _, err := castTo(n, from, to)
	return n, err
}

func isConstant(n node) bool { _, ok := n.(constant); return ok }
