package expr

import (
	"cmp"
	"fmt"
	"slices"
)

func logic(op string, args []node, types []typ) (node, typ, error) {
	for _, t := range types {
		if t.sort != boolean && t.sort != null {
			return nil, typ{}, fmt.Errorf("%w: %s of a %s", ErrUnsupported, op, t)
		}
	}
	if op == "not" {
		return not{args[0]}, boolType, nil
	}
	return &connective{args[0], args[1], truth(op == "or").i}, boolType, nil
}

type not struct{ x node }

func (n not) eval(e *Evaluation) value {
	v := n.x.eval(e)
	if !v.null {
		v.i = 1 - v.i
	}
	return v
}

// connective is AND or OR: decided by one side that is false or true.
type connective struct {
	a, b   node
	decide int64
}

func (n *connective) eval(e *Evaluation) value {
	a := n.a.eval(e)
	if e.err != nil || !a.null && a.i == n.decide {
		return a
	}
	b := n.b.eval(e)
	if !b.null && (b.i == n.decide || !a.null) {
		return b
	}
	return none
}

type nullTest struct {
	x    node
	want bool
}

func (n *nullTest) eval(e *Evaluation) value { return truth(n.x.eval(e).null == n.want) }

func comparison(op string, args []node, types []typ) (node, typ, error) {
	args, t, err := both(args, types)
	if err != nil {
		return nil, typ{}, err
	}
	if t.sort == other {
		return nil, typ{}, fmt.Errorf("%w: %s of nested values", ErrUnsupported, op)
	}
	return &compared{op: op, a: args[0], b: args[1], sort: t.sort}, boolType, nil
}

type compared struct {
	op   string
	a, b node
	sort sort
}

func (n *compared) eval(e *Evaluation) value {
	a, b := n.a.eval(e), n.b.eval(e)
	if a.null || b.null {
		if n.op == "<=>" {
			return truth(a.null && b.null)
		}
		return none
	}
	c := order(n.sort, a, b)
	switch n.op {
	case "=", "==", "<=>":
		return truth(c == 0)
	case "!=", "<>":
		return truth(c != 0)
	case "<":
		return truth(c < 0)
	case "<=":
		return truth(c <= 0)
	case ">":
		return truth(c > 0)
	}
	return truth(c >= 0)
}

// order compares two values of one sort.
func order(s sort, a, b value) int {
	switch s {
	case float:
		switch {
		case nan(a.f) && nan(b.f):
			return 0
		case nan(a.f):
			return 1
		case nan(b.f):
			return -1
		}
		return cmp.Compare(a.f, b.f) // 0.0 and -0.0 are equal
	case decimal:
		return a.d.Cmp(b.d)
	case text, binary:
		return cmp.Compare(a.s, b.s)
	}
	return cmp.Compare(a.i, b.i)
}

func membership(args []node, types []typ) (node, typ, error) {
	args, t, err := both(args, types)
	if err != nil {
		return nil, typ{}, err
	}
	if t.sort == other {
		return nil, typ{}, fmt.Errorf("%w: IN of nested values", ErrUnsupported)
	}
	return &in{args[0], args[1:], t.sort}, boolType, nil
}

type in struct {
	x    node
	list []node
	sort sort
}

func (n *in) eval(e *Evaluation) value {
	x := n.x.eval(e)
	if x.null {
		return none
	}
	out := truth(false)
	for _, l := range n.list {
		switch v := l.eval(e); {
		case v.null:
			out = none
		case order(n.sort, x, v) == 0:
			return truth(true)
		}
	}
	return out
}

// cases takes conditions and results in turn, and what stands for none of them.
func cases(args []node, types []typ) (node, typ, error) {
	n := &caseOf{}
	var results []node
	var of []typ
	for i := 0; i+1 < len(args); i += 2 {
		if types[i].sort != boolean && types[i].sort != null {
			return nil, typ{}, fmt.Errorf("%w: CASE WHEN a %s", ErrUnsupported, types[i])
		}
		n.when = append(n.when, args[i])
		results, of = append(results, args[i+1]), append(of, types[i+1])
	}
	results, of = append(results, args[len(args)-1]), append(of, types[len(types)-1])
	results, t, err := joined(results, of)
	n.then = results
	return n, t, err
}

// joined is both for values of which one is given on: texts stay texts.
func joined(args []node, types []typ) ([]node, typ, error) {
	t := types[0]
	for _, next := range types[1:] {
		var err error
		if t, err = common(t, next); err != nil {
			return nil, typ{}, err
		}
	}
	if t.sort == decimal && t.p > 38 {
		return nil, typ{}, fmt.Errorf("%w: decimals of %d digits", ErrUnsupported, t.p)
	}
	out := slices.Clone(args)
	for i := range out {
		var err error
		if out[i], err = converted(out[i], types[i], t); err != nil {
			return nil, typ{}, err
		}
	}
	return out, t, nil
}

type caseOf struct{ when, then []node }

func (n *caseOf) eval(e *Evaluation) value {
	for i, w := range n.when {
		if v := w.eval(e); !v.null && v.i == 1 {
			return n.then[i].eval(e)
		}
	}
	return n.then[len(n.then)-1].eval(e)
}
