package transform

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/jmespath-community/go-jmespath/pkg/functions"
	"github.com/jmespath-community/go-jmespath/pkg/interpreter"
	"github.com/jmespath-community/go-jmespath/pkg/parsing"
)

// builtIn are the functions of the JMESPath specification, which kafka-delta-ingest has. Others of the library stay
// out: some make strings of a length that a value gives.
func builtIn() []string {
	return []string{"abs", "avg", "ceil", "contains", "ends_with", "floor", "join", "keys", "length", "map", "max", "max_by", "merge", "min",
		"min_by", "not_null", "reverse", "sort", "sort_by", "starts_with", "sum", "to_array", "to_number", "to_string", "type", "values"}
}

// extras are those that kafka-delta-ingest adds.
func extras() []string {
	return []string{"substr", "epoch_seconds_to_iso8601", "epoch_millis_to_iso8601", "epoch_micros_to_iso8601", "epoch_millis_to_micro"}
}

func knownFunction(name string) bool {
	return slices.Contains(builtIn(), name) || slices.Contains(extras(), name)
}

// The names of what exact puts in the place of operators; no expression can write them.
const (
	compareName   = " compare"
	calculateName = " calculate"
)

// caller calls the functions of trees.
func caller() interpreter.FunctionCaller {
	return interpreter.NewFunctionCaller(append(allFunctions(),
		functions.FunctionEntry{Name: compareName, Handler: compareTrees}, functions.FunctionEntry{Name: calculateName, Handler: calculateTrees})...)
}

// exact puts functions in the place of comparisons and arithmetic: those of the library know floats alone.
func exact(ast parsing.ASTNode) parsing.ASTNode {
	out := ast
	out.Children = make([]parsing.ASTNode, len(ast.Children))
	for i, child := range ast.Children {
		out.Children[i] = exact(child)
	}
	name := calculateName
	switch ast.NodeType {
	case parsing.ASTComparator:
		name = compareName
	case parsing.ASTArithmeticExpression:
	case parsing.ASTArithmeticUnaryExpression: // as in 0 - x
		out.Children = append([]parsing.ASTNode{{NodeType: parsing.ASTLiteral, Value: 0.0}}, out.Children...)
	default:
		return out
	}
	how := parsing.ASTNode{NodeType: parsing.ASTLiteral, Value: ast.Value}
	return parsing.ASTNode{NodeType: parsing.ASTFunctionExpression, Value: name, Children: append([]parsing.ASTNode{how}, out.Children...)}
}

func compareTrees(args []any) (any, error) {
	how, _ := args[0].(parsing.TokType)
	switch how {
	case parsing.TOKEQ:
		return same(args[1], args[2]), nil
	case parsing.TOKNE:
		return !same(args[1], args[2]), nil
	}
	a, ok1 := treeNumber(args[1])
	b, ok2 := treeNumber(args[2])
	if !ok1 || !ok2 {
		return nil, nil
	}
	return ordered(how, order(a, b)), nil
}

func calculateTrees(args []any) (any, error) {
	how, _ := args[0].(parsing.TokType)
	a, ok1 := treeNumber(args[1])
	b, ok2 := treeNumber(args[2])
	if !ok1 || !ok2 {
		return nil, nil
	}
	v, err := calculate(how, a, b)
	if err != nil || v.kind == null {
		return nil, err
	}
	return v.inTree(), nil
}

// allFunctions are all, for trees.
func allFunctions() []functions.FunctionEntry {
	var out []functions.FunctionEntry
	own := exactFunctions()
	for _, f := range functions.GetDefaultFunctions() {
		if slices.Contains(builtIn(), f.Name) {
			out = append(out, functions.FunctionEntry{Name: f.Name, Handler: numeric(f, own[f.Name])})
		}
	}
	for _, name := range extras() {
		out = append(out, functions.FunctionEntry{Name: name, Handler: extra(name)})
	}
	return out
}

// exactFunction does the calls that have to do with numbers, and says of the others that it has not.
type exactFunction func(args []any) (out any, done bool, err error)

func exactFunctions() map[string]exactFunction {
	return map[string]exactFunction{
		"abs": absolute, "ceil": round, "floor": round, "max": extreme(1), "min": extreme(-1), "sort": sortNumbers, "sum": sum, "avg": average,
		"to_number": toNumber, "type": typeOf, "contains": contains, "max_by": extremeBy(1), "min_by": extremeBy(-1), "sort_by": sortBy,
	}
}

// numeric makes a function of the library exact. own may be nil; what it leaves goes to the library, with its checks.
func numeric(f functions.FunctionEntry, own exactFunction) functions.JpFunction {
	library := interpreter.NewFunctionCaller(f)
	return func(args []any) (any, error) {
		if own != nil && len(args) == len(f.Arguments) {
			if out, done, err := own(args); done || err != nil {
				return out, err
			}
		}
		return library.CallFunction(f.Name, args)
	}
}

// round gives numbers that no float holds as they are: they have no fraction.
func round(args []any) (any, bool, error) {
	n, ok := args[0].(json.Number)
	if ok && !isWhole([]byte(n)) {
		return nil, true, errDigits
	}
	return args[0], ok, nil
}

func absolute(args []any) (any, bool, error) {
	_, ok, err := round(args)
	if !ok || err != nil {
		return nil, ok, err
	}
	return json.Number(strings.TrimPrefix(string(args[0].(json.Number)), "-")), true, nil
}

// numbers are the elements of an array of numbers.
func numbers(arg any) ([]value, bool) {
	list, ok := arg.([]any)
	out := make([]value, len(list))
	for i, e := range list {
		if out[i], ok = treeNumber(e); !ok {
			return nil, false
		}
	}
	return out, ok && len(list) > 0
}

// extreme finds the largest (sign 1) or smallest (-1) number.
func extreme(sign int) exactFunction {
	return func(args []any) (any, bool, error) {
		list, ok := numbers(args[0])
		if !ok {
			return nil, false, nil
		}
		return slices.MaxFunc(list, func(a, b value) int { return sign * order(a, b) }).inTree(), true, nil
	}
}

func sortNumbers(args []any) (any, bool, error) {
	list, ok := numbers(args[0])
	if !ok {
		return nil, false, nil
	}
	slices.SortStableFunc(list, order)
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v.inTree()
	}
	return out, true, nil
}

func sum(args []any) (any, bool, error) {
	list, ok := numbers(args[0])
	if !ok {
		return nil, false, nil
	}
	total, err := wholeValue(0), error(nil)
	for _, v := range list {
		if total, err = calculate(parsing.TOKPlus, total, v); err != nil {
			return nil, true, err
		}
	}
	return total.inTree(), true, nil
}

func average(args []any) (any, bool, error) {
	total, ok, err := sum(args)
	if !ok || err != nil {
		return nil, ok, err
	}
	a, _ := treeNumber(total)
	v, err := calculate(parsing.TOKDivide, a, wholeValue(int64(len(args[0].([]any)))))
	return v.inTree(), true, err
}

func toNumber(args []any) (any, bool, error) {
	switch v := args[0].(type) {
	case json.Number:
		return v, true, nil
	case string:
		if n := (&evaluator{}).toNumber(value{kind: str, text: []byte(v)}); n.kind == number {
			return n.inTree(), true, nil
		}
		return nil, true, nil
	}
	return nil, false, nil
}

func typeOf(args []any) (any, bool, error) {
	_, ok := args[0].(json.Number)
	return "number", ok, nil
}

func contains(args []any) (any, bool, error) {
	list, ok := args[0].([]any)
	return slices.ContainsFunc(list, func(e any) bool { return same(e, args[1]) }), ok, nil
}

// keyed is an element and its number.
type keyed struct {
	item any
	key  value
}

// keys are the elements with the numbers that an expression gives; not ok when it gives others.
func keys(args []any) ([]keyed, bool, error) {
	list, ok1 := args[0].([]any)
	by, ok2 := args[1].(functions.ExpRef)
	if !ok1 || !ok2 {
		return nil, false, nil
	}
	out := make([]keyed, len(list))
	for i, e := range list {
		k, err := by(e)
		if err != nil {
			return nil, false, err
		}
		n, ok := treeNumber(k)
		if !ok {
			return nil, false, nil
		}
		out[i] = keyed{e, n}
	}
	return out, len(list) > 0, nil
}

func byKey(a, b keyed) int { return order(a.key, b.key) }

func extremeBy(sign int) exactFunction {
	return func(args []any) (any, bool, error) {
		list, ok, err := keys(args)
		if !ok {
			return nil, false, err
		}
		return slices.MaxFunc(list, func(a, b keyed) int { return sign * byKey(a, b) }).item, true, nil
	}
}

func sortBy(args []any) (any, bool, error) {
	list, ok, err := keys(args)
	if !ok {
		return nil, false, err
	}
	slices.SortStableFunc(list, byKey)
	out := make([]any, len(list))
	for i, k := range list {
		out[i] = k.item
	}
	return out, true, nil
}

// extra makes one of extras for the interpreter, out of what runs without it.
func extra(name string) functions.JpFunction {
	return func(args []any) (any, error) {
		call := parsing.ASTNode{NodeType: parsing.ASTFunctionExpression, Value: name, Children: make([]parsing.ASTNode, len(args))}
		var c compiler
		for i := range call.Children {
			call.Children[i].NodeType = parsing.ASTLiteral // null, until the argument takes its place
		}
		n := c.node(call)
		if n == nil {
			return nil, errors.Join(errors.New(name+" cannot be called so"), c.err)
		}
		for i, a := range args {
			v, ok := treeNumber(a)
			if !ok {
				v, ok = constant(a)
			}
			if !ok {
				return nil, errors.New(name + " got a value of the wrong type")
			}
			n.args[i].value = v
		}
		var e evaluator
		v, err := e.eval(n)
		switch {
		case err != nil || v.kind == null:
			return nil, err
		case v.kind == str:
			return string(v.text), nil
		}
		return v.inTree(), nil
	}
}

// checkLiterals refuses numbers that the parser has rounded already.
func checkLiterals(v any) error {
	switch v := v.(type) {
	case float64:
		if math.Abs(v) >= exactFloat {
			return errors.New("JMESPath: a number between backquotes has at most 15 digits; write a larger one as to_number('1234567890123456789')")
		}
	case []any:
		for _, e := range v {
			if err := checkLiterals(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := checkLiterals(e); err != nil {
				return err
			}
		}
	}
	return nil
}
