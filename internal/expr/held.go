package expr

// An operand that is written once and looked at several times (of BETWEEN, CASE x WHEN, nullif) is evaluated once. Were it
// copied to each place, nesting such operators would double the work with every level.

// hold gives the node that stands for an operand in several places, and what puts the whole together that has them.
// Constants and columns cost nothing to look at again, and stay what they are.
func (b *binder) hold(x node) (node, func(whole node) node) {
	switch x.(type) {
	case constant, *column:
		return x, func(whole node) node { return whole }
	}
	at := held(b.held)
	b.held++
	return at, func(whole node) node { return &holding{at, x, whole} }
}

// held is the value that a holding around it has kept.
type held int

func (n held) eval(e *Evaluation) value { return e.held[n] }

// holding evaluates and keeps an operand, then evaluates what looks at it.
type holding struct {
	at       held
	x, whole node
}

func (n *holding) eval(e *Evaluation) value {
	e.held[n.at] = n.x.eval(e)
	return n.whole.eval(e)
}

// between takes an operand and two bounds: each comparison is of the type that its own two sides have in common.
func (b *binder) between(args []node, types []typ) (node, typ, error) {
	x, keep := b.hold(args[0])
	low, _, err := comparison(">=", []node{x, args[1]}, types[:2])
	if err != nil {
		return nil, typ{}, err
	}
	high, _, err := comparison("<=", []node{x, args[2]}, []typ{types[0], types[2]})
	return keep(&connective{low, high, 0}), boolType, err
}

// switched is cases whose conditions are comparisons with one operand.
func (b *binder) switched(args []node, types []typ) (node, typ, error) {
	x, keep := b.hold(args[0])
	for i := 1; i+1 < len(args); i += 2 {
		eq, t, err := comparison("=", []node{x, args[i]}, []typ{types[0], types[i]})
		if err != nil {
			return nil, typ{}, err
		}
		args[i], types[i] = eq, t
	}
	n, t, err := cases(args[1:], types[1:])
	return keep(n), t, err
}
