package expr

import (
	"fmt"
	"math"
	"math/big"
)

func arithmetic(op string, args []node, types []typ) (node, typ, error) {
	for i, t := range types {
		if t.sort == null {
			types[i] = intType
		} else if !t.number() {
			return nil, typ{}, fmt.Errorf("%w: %s of a %s", ErrUnsupported, op, t)
		}
	}
	if op == "negative" {
		return &negative{args[0], types[0]}, types[0], nil
	}
	t, err := common(types[0], types[1])
	if err != nil {
		return nil, typ{}, err
	}
	switch {
	case op == "div" && t.sort == integer:
		t = longType
	case op == "/" && t.sort != decimal:
		t = doubleType
	case op == "div", op == "/":
		return nil, typ{}, fmt.Errorf("%w: %s of %s and %s", ErrUnsupported, op, types[0], types[1])
	case t.sort == decimal:
		return decimals(op, args, types)
	}
	for i := range args {
		if args[i], err = converted(args[i], types[i], t); err != nil {
			return nil, typ{}, err
		}
	}
	if t.sort == integer {
		return &integers{op, args[0], args[1], t.bits}, t, nil
	}
	return &floats{op, args[0], args[1], t.bits}, t, nil
}

type negative struct {
	x node
	t typ
}

func (n *negative) eval(e *Evaluation) value {
	v := n.x.eval(e)
	switch {
	case v.null:
	case n.t.sort == integer && !fits(-v.i, n.t.bits), n.t.sort == integer && v.i == math.MinInt64:
		return e.fail("-(%d) is beyond %s", v.i, n.t)
	case n.t.sort == decimal:
		v.d = new(big.Int).Neg(v.d)
	default:
		v.i, v.f = -v.i, -v.f
	}
	return v
}

type integers struct {
	op   string
	a, b node
	bits int
}

func (n *integers) eval(e *Evaluation) value {
	x, y := n.a.eval(e), n.b.eval(e)
	if x.null || y.null {
		return none
	}
	a, b := x.i, y.i
	var out int64
	over := false
	switch n.op {
	case "+":
		out = a + b
		over = (a > 0) == (b > 0) && (out > 0) != (a > 0) && a != 0 && b != 0
	case "-":
		out = a - b
		over = (a >= 0) != (b >= 0) && (out >= 0) != (a >= 0)
	case "*":
		out = a * b
		over = a != 0 && (out/a != b || a == -1 && b == math.MinInt64)
	default:
		if b == 0 {
			return e.fail("%d %s 0: division by zero", a, n.op)
		}
		if n.op == "%" {
			out = a % b
		} else {
			out = a / b
			over = a == math.MinInt64 && b == -1
		}
	}
	if over || !fits(out, n.bits) {
		return e.fail("%d %s %d is beyond %d bits", a, n.op, b, n.bits)
	}
	return value{i: out}
}

type floats struct {
	op   string
	a, b node
	bits int
}

func (n *floats) eval(e *Evaluation) value {
	x, y := n.a.eval(e), n.b.eval(e)
	if x.null || y.null {
		return none
	}
	a, b, out := x.f, y.f, 0.0
	switch n.op {
	case "+":
		out = a + b
	case "-":
		out = a - b
	case "*":
		out = a * b
	default:
		if b == 0 {
			return e.fail("%v %s 0: division by zero", a, n.op)
		}
		if n.op == "/" {
			out = a / b
		} else {
			out = math.Mod(a, b)
		}
	}
	if n.bits == 32 {
		out = float64(float32(out))
	}
	return value{f: out}
}

// decimals plans what is exact: a result that may have more than 38 digits is one that Spark rounds by its own rules.
func decimals(op string, args []node, types []typ) (node, typ, error) {
	a, b := tight(args[0], types[0]), tight(args[1], types[1])
	s := max(a.s, b.s)
	t := typ{sort: decimal, s: s}
	switch op {
	case "+", "-":
		t.p = max(a.p-a.s, b.p-b.s) + s + 1
	case "*":
		t.p, t.s = a.p+b.p+1, a.s+b.s
	case "%":
		t.p = min(a.p-a.s, b.p-b.s) + s
	}
	if t.p > 38 {
		return nil, typ{}, fmt.Errorf("%w: %s %s %s, which has %d digits", ErrUnsupported, types[0], op, types[1], t.p)
	}
	x, err := converted(args[0], types[0], a)
	if err != nil {
		return nil, typ{}, err
	}
	y, err := converted(args[1], types[1], b)
	return &decimalOp{op, x, y, power(s - a.s), power(s - b.s)}, t, err
}

// tight is asDecimal with no more digits than an integer literal has.
func tight(n node, t typ) typ {
	out := asDecimal(t)
	if c, ok := n.(constant); ok && t.sort == integer && !c.null {
		out.p = int32(len(big.NewInt(0).Abs(big.NewInt(c.i)).String()))
	}
	return out
}

type decimalOp struct {
	op     string
	a, b   node
	ua, ub *big.Int // bring both to one scale
}

func (n *decimalOp) eval(e *Evaluation) value {
	x, y := n.a.eval(e), n.b.eval(e)
	if x.null || y.null {
		return none
	}
	out := new(big.Int)
	if n.op == "*" {
		return value{d: out.Mul(x.d, y.d)}
	}
	a, b := new(big.Int).Mul(x.d, n.ua), new(big.Int).Mul(y.d, n.ub)
	switch n.op {
	case "+":
		out.Add(a, b)
	case "-":
		out.Sub(a, b)
	default:
		if b.Sign() == 0 {
			return e.fail("division by zero")
		}
		out.Rem(a, b)
	}
	return value{d: out}
}
