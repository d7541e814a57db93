package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// op is what a node of a program does.
type op uint8

const (
	opField  op = iota // a field of the value, by path
	opMeta             // something of the record
	opConst            // a literal
	opSubstr           // the five functions
	opISO8601
	opMillisToMicros
	opToNumber
	opOr
	opAnd
	opNot
	opCompare
	opTree // any other expression, over a tree of the fields that it names
)

// node is a compiled expression. It is not changed when it runs.
type node struct {
	op      op
	root    int      // opField: the number of the captured field
	name    string   // opField: its name. opMeta: of a header
	path    []string // opField: what comes below it; once bound, below what is captured
	meta    meta
	value   value
	unit    int64 // opISO8601: of the number, in nanoseconds
	skip    int64 // opSubstr: the arguments, when they are literals; else take is -1
	take    int64
	compare parsing.TokType
	args    []*node
	tree    *tree
}

// tree is an expression for the interpreter.
type tree struct {
	ast   parsing.ASTNode
	roots []string // the fields that it names
	whole bool     // it may look at any
	kafka bool     // it looks at the record
	marks []int    // of the roots
}

// compile makes the program of a field's source.
func compile(f Field) (*node, error) {
	if name, ok := strings.CutPrefix(f.Source, "kafka."); ok {
		n, err := metaNode(strings.SplitN(name, ".", 2))
		if err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrSpec, f.Property, err)
		}
		return n, nil
	}
	n, err := compileExpression(f.Source, false)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrSpec, f.Property, err)
	}
	return n, nil
}

// compileWhere makes the program of a condition.
func compileWhere(source string) (*node, error) {
	n, err := compileExpression(source, true)
	if err != nil {
		return nil, fmt.Errorf("%w: where: %w", ErrSpec, err)
	}
	return n, nil
}

func compileExpression(source string, kafka bool) (*node, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("JMESPath: the expression has %d bytes, and at most %d are taken", len(source), maxSource)
	}
	ast, err := parse(source)
	if err != nil && strings.Contains(err.Error(), "TOKNumber") {
		return nil, fmt.Errorf("JMESPath %q: a number to compare with is a literal, in backticks: amount > `10`", source)
	}
	if err != nil {
		return nil, fmt.Errorf("JMESPath %q: %w", source, err)
	}
	if err := check(ast, 0); err != nil {
		return nil, err
	}
	c := compiler{kafka: kafka}
	if n := c.node(ast); n != nil {
		return n, nil
	}
	if c.err != nil {
		return nil, c.err
	}
	t := &tree{ast: exact(ast)}
	if err := t.look(ast, true); err != nil {
		return nil, err
	}
	if i := slices.Index(t.roots, "kafka"); kafka && i >= 0 {
		t.roots, t.kafka = slices.Delete(t.roots, i, i+1), true
	}
	return &node{op: opTree, tree: t}, nil
}

// An expression may come from a table's property, and each level of it is a call here and in the library. The length
// bounds the levels that the parser goes down before they are counted (I8).
const (
	maxSource = 16 << 10
	maxLevels = 500
)

// check refuses what is nested too deep, and numbers that the parser has changed.
func check(ast parsing.ASTNode, level int) error {
	if level > maxLevels {
		return fmt.Errorf("JMESPath: the expression is nested deeper than %d levels", maxLevels)
	}
	if ast.NodeType == parsing.ASTLiteral {
		return checkLiterals(ast.Value)
	}
	for _, child := range ast.Children {
		if err := check(child, level+1); err != nil {
			return err
		}
	}
	return nil
}

// parse reads an expression. The parser is not trusted with every text.
func parse(source string) (ast parsing.ASTNode, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parsing.NewParser().Parse(source)
}

type compiler struct {
	kafka bool // fields below "kafka" are of the record
	err   error
}

// node compiles what needs no tree; nil for what does.
func (c *compiler) node(ast parsing.ASTNode) *node {
	switch ast.NodeType {
	case parsing.ASTField, parsing.ASTSubexpression:
		path, ok := fieldPath(ast)
		if !ok {
			return nil
		}
		if c.kafka && path[0] == "kafka" {
			n, err := metaNode(path[1:])
			if err != nil {
				c.err = err
			}
			return n
		}
		return &node{op: opField, name: path[0], path: path[1:]}
	case parsing.ASTLiteral:
		if v, ok := constant(ast.Value); ok {
			return &node{op: opConst, value: v}
		}
	case parsing.ASTOrExpression:
		return c.with(&node{op: opOr}, ast.Children)
	case parsing.ASTAndExpression:
		return c.with(&node{op: opAnd}, ast.Children)
	case parsing.ASTNotExpression:
		return c.with(&node{op: opNot}, ast.Children)
	case parsing.ASTComparator:
		if t, ok := ast.Value.(parsing.TokType); ok {
			return c.with(&node{op: opCompare, compare: t}, ast.Children)
		}
	case parsing.ASTFunctionExpression:
		return c.function(ast)
	}
	return nil
}

func (c *compiler) with(n *node, children []parsing.ASTNode) *node {
	for _, child := range children {
		arg := c.node(child)
		if arg == nil {
			return nil
		}
		n.args = append(n.args, arg)
	}
	return n
}

func (c *compiler) function(ast parsing.ASTNode) *node {
	name, _ := ast.Value.(string)
	n, want := &node{}, 1
	switch name {
	case "substr":
		n.op, want, n.take = opSubstr, 3, -1
	case "epoch_seconds_to_iso8601":
		n.op, n.unit = opISO8601, 1e9
	case "epoch_millis_to_iso8601":
		n.op, n.unit = opISO8601, 1e6
	case "epoch_micros_to_iso8601":
		n.op, n.unit = opISO8601, 1e3
	case "epoch_millis_to_micro":
		n.op = opMillisToMicros
	case "to_number":
		n.op = opToNumber
	default:
		return nil
	}
	if len(ast.Children) != want {
		c.err = fmt.Errorf("JMESPath: %s takes %d arguments, not %d", name, want, len(ast.Children))
		return nil
	}
	if n = c.with(n, ast.Children); n != nil && n.op == opSubstr {
		n.constantArguments()
	}
	return n
}

// constantArguments reads literals once.
func (n *node) constantArguments() {
	from, count := n.args[1], n.args[2]
	if from.op == opConst && from.value.kind == number && count.op == opConst && count.value.kind == number {
		n.skip, n.take = characters(from.value), characters(count.value)
	}
}

// fieldPath gives the names of a path of fields.
func fieldPath(ast parsing.ASTNode) ([]string, bool) {
	switch ast.NodeType {
	case parsing.ASTField:
		name, ok := ast.Value.(string)
		return []string{name}, ok
	case parsing.ASTSubexpression:
		if len(ast.Children) != 2 {
			return nil, false
		}
		left, ok1 := fieldPath(ast.Children[0])
		right, ok2 := fieldPath(ast.Children[1])
		return append(left, right...), ok1 && ok2
	}
	return nil, false
}

// look finds the fields of the value that an expression may see, and refuses functions that are not there.
func (t *tree) look(ast parsing.ASTNode, root bool) error {
	switch ast.NodeType {
	case parsing.ASTField:
		if name, _ := ast.Value.(string); root && !slices.Contains(t.roots, name) {
			t.roots = append(t.roots, name)
		}
	case parsing.ASTCurrentNode, parsing.ASTIdentity:
		t.whole = t.whole || root
	case parsing.ASTRootNode:
		t.whole = true
	case parsing.ASTFunctionExpression:
		name, _ := ast.Value.(string)
		if !knownFunction(name) {
			return fmt.Errorf("JMESPath has no function %q here", name)
		}
	}
	for i, child := range ast.Children {
		in := root
		switch ast.NodeType {
		case parsing.ASTSubexpression, parsing.ASTPipe, parsing.ASTIndexExpression, parsing.ASTProjection,
			parsing.ASTFilterProjection, parsing.ASTValueProjection:
			in = root && i == 0
		case parsing.ASTExpRef:
			in = false
		}
		if err := t.look(child, in); err != nil {
			return err
		}
	}
	return nil
}
