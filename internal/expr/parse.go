package expr

import (
	"fmt"
	"slices"
	"strings"
)

// Expr is a parsed expression, not yet bound to columns.
type Expr struct {
	text string
	root *syntax
}

// String gives the text of the expression.
func (e *Expr) String() string { return e.text }

// syntax is a node as it was written: an operator or function with what it is applied to, a literal, or a column.
type syntax struct {
	op   string // of this package alone: a word of the text never becomes one
	name string // of a function that is called, in lower case
	args []*syntax
	lit  token
	sort string   // of a literal: number, text, true, false, null, date, timestamp, timestamp_ntz; of a cast: the type
	path []string // of a column
}

// Parse reads an expression.
func Parse(text string) (*Expr, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: %d bytes are more than %d", ErrUnsupported, len(text), maxText)
	}
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != kindEnd {
		return nil, p.unexpected(t)
	}
	return &Expr{text: text, root: n}, nil
}

type parser struct {
	tokens []token
	at     int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != kindEnd {
		p.at++
	}
	return t
}

// word takes keywords when they are next.
func (p *parser) word(words ...string) bool {
	for i, w := range words {
		if p.at+i >= len(p.tokens) || p.tokens[p.at+i].kind != kindWord || !strings.EqualFold(p.tokens[p.at+i].text, w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

// sign takes one of the signs when it is next.
func (p *parser) sign(signs ...string) (string, bool) {
	t := p.peek()
	if t.kind == kindSign && slices.Contains(signs, t.text) {
		p.at++
		return t.text, true
	}
	return "", false
}

func (p *parser) want(sign string) error {
	if _, ok := p.sign(sign); !ok {
		return p.unexpected(p.peek())
	}
	return nil
}

func (p *parser) unexpected(t token) error {
	if t.kind == kindEnd {
		return fmt.Errorf("%w: it ends too early", ErrUnsupported)
	}
	return fmt.Errorf("%w: %q at position %d", ErrUnsupported, t.text, t.at+1)
}

// deeper bounds the depth of the tree; its result is to be called when the branch was read.
func (p *parser) deeper() (func(), error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("%w: it is nested deeper than %d", ErrUnsupported, maxDepth)
	}
	return func() { p.depth-- }, nil
}

func call(op string, args ...*syntax) *syntax { return &syntax{op: op, args: args} }

// chain reads operands that are joined by operators of one rank, from the left.
func (p *parser) chain(operand func() (*syntax, error), operator func() (string, bool)) (*syntax, error) {
	left, err := operand()
	for n := 0; err == nil; n++ {
		op, ok := operator()
		if !ok {
			return left, nil
		}
		if n > maxDepth {
			return nil, fmt.Errorf("%w: more than %d operators in a row", ErrUnsupported, maxDepth)
		}
		var right *syntax
		if right, err = operand(); err == nil {
			left = call(op, left, right)
		}
	}
	return nil, err
}

func (p *parser) or() (*syntax, error) {
	up, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer up()
	return p.chain(p.and, func() (string, bool) { return "or", p.word("OR") })
}

func (p *parser) and() (*syntax, error) {
	return p.chain(p.not, func() (string, bool) { return "and", p.word("AND") })
}

func (p *parser) not() (*syntax, error) {
	if _, bang := p.sign("!"); !bang && !p.word("NOT") {
		return p.predicate()
	}
	up, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer up()
	x, err := p.not()
	return call("not", x), err
}

// predicate reads a comparison and what may stand behind it.
func (p *parser) predicate() (*syntax, error) {
	x, err := p.chain(p.sum, func() (string, bool) { return p.sign("=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">=") })
	if err != nil {
		return nil, err
	}
	if p.word("IS") {
		return p.is(x)
	}
	not := p.word("NOT")
	switch {
	case p.word("IN"):
		return p.in(x, not)
	case p.word("BETWEEN"):
		low, err := p.sum()
		if err != nil {
			return nil, err
		}
		if !p.word("AND") {
			return nil, p.unexpected(p.peek())
		}
		high, err := p.sum()
		return negated(call("between", x, low, high), not), err
	case p.word("LIKE"):
		pattern, err := p.sum()
		if err == nil && p.word("ESCAPE") {
			return nil, fmt.Errorf("%w: LIKE with ESCAPE", ErrUnsupported)
		}
		return negated(call("like", x, pattern), not), err
	case not:
		return nil, p.unexpected(p.peek())
	}
	return x, nil
}

func negated(x *syntax, not bool) *syntax {
	if not {
		return call("not", x)
	}
	return x
}

func (p *parser) is(x *syntax) (*syntax, error) {
	not := p.word("NOT")
	switch {
	case p.word("NULL"), p.word("UNKNOWN"):
		return negated(call("isnull", x), not), nil
	case p.word("TRUE"):
		return negated(call("<=>", x, &syntax{op: "lit", sort: "true"}), not), nil
	case p.word("FALSE"):
		return negated(call("<=>", x, &syntax{op: "lit", sort: "false"}), not), nil
	case p.word("DISTINCT", "FROM"):
		y, err := p.sum()
		return negated(call("<=>", x, y), !not), err
	}
	return nil, p.unexpected(p.peek())
}

func (p *parser) in(x *syntax, not bool) (*syntax, error) {
	if err := p.want("("); err != nil {
		return nil, err
	}
	list, err := p.list()
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w: IN ()", ErrUnsupported)
	}
	return negated(&syntax{op: "in", args: append([]*syntax{x}, list...)}, not), err
}

// list reads expressions up to the closing parenthesis.
func (p *parser) list() (out []*syntax, err error) {
	if _, ok := p.sign(")"); ok {
		return nil, nil
	}
	for {
		x, err := p.or()
		if err != nil {
			return nil, err
		}
		out = append(out, x)
		if _, more := p.sign(","); !more {
			return out, p.want(")")
		}
	}
}

func (p *parser) sum() (*syntax, error) {
	return p.chain(p.product, func() (string, bool) { return p.sign("+", "-", "||") })
}

func (p *parser) product() (*syntax, error) {
	return p.chain(p.signed, func() (string, bool) {
		if p.word("DIV") {
			return "div", true
		}
		return p.sign("*", "/", "%")
	})
}

func (p *parser) signed() (*syntax, error) {
	up, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer up()
	s, ok := p.sign("-", "+")
	if !ok {
		return p.postfix()
	}
	if t := p.peek(); s == "-" && t.kind == kindNumber { // the least integer has no positive form
		p.next()
		return &syntax{op: "lit", sort: "number", lit: token{kindNumber, "-" + t.text, t.at}}, nil
	}
	x, err := p.signed()
	if s == "+" {
		return x, err
	}
	return call("negative", x), err
}

// postfix reads fields and casts behind a value.
func (p *parser) postfix() (*syntax, error) {
	x, err := p.primary()
	for err == nil {
		if _, ok := p.sign("::"); !ok {
			break
		}
		var to string
		to, err = p.typeName()
		x = &syntax{op: "cast", sort: to, args: []*syntax{x}}
	}
	return x, err
}

func (p *parser) primary() (*syntax, error) {
	t := p.next()
	switch t.kind {
	case kindNumber:
		return &syntax{op: "lit", sort: "number", lit: t}, nil
	case kindText:
		return &syntax{op: "lit", sort: "text", lit: t}, nil
	case kindName:
		return p.column(t)
	case kindSign:
		if t.text != "(" {
			return nil, p.unexpected(t)
		}
		x, err := p.or()
		if err != nil {
			return nil, err
		}
		return x, p.want(")")
	case kindWord:
		return p.named(t)
	}
	return nil, p.unexpected(t)
}

// named reads what begins with a word: a literal, CASE, CAST, a function, or a column.
func (p *parser) named(t token) (*syntax, error) {
	low := strings.ToLower(t.text)
	behind := p.peek()
	switch {
	case low == "true", low == "false", low == "null":
		return &syntax{op: "lit", sort: low}, nil
	case slices.Contains([]string{"date", "timestamp", "timestamp_ntz"}, low) && behind.kind == kindText:
		return &syntax{op: "lit", sort: low, lit: p.next()}, nil
	case slices.Contains([]string{"x", "r", "timestamp_ltz"}, low) && behind.kind == kindText, low == "interval" && behind.kind != kindSign:
		return nil, fmt.Errorf("%w: the literal %s at position %d", ErrUnsupported, t.text, t.at+1)
	case low == "case":
		return p.cases()
	case behind.kind == kindSign && behind.text == "(":
		p.next()
		if low == "cast" {
			return p.cast()
		}
		args, err := p.list()
		return &syntax{op: "call", name: low, args: args}, err
	}
	return p.column(t)
}

func (p *parser) column(t token) (*syntax, error) {
	out := &syntax{op: "col", path: []string{t.text}, lit: t}
	for {
		if _, ok := p.sign("."); !ok {
			return out, nil
		}
		t := p.next()
		if t.kind != kindWord && t.kind != kindName {
			return nil, p.unexpected(t)
		}
		out.path = append(out.path, t.text)
	}
}

func (p *parser) cast() (*syntax, error) {
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.word("AS") {
		return nil, p.unexpected(p.peek())
	}
	to, err := p.typeName()
	if err != nil {
		return nil, err
	}
	return &syntax{op: "cast", sort: to, args: []*syntax{x}}, p.want(")")
}

func (p *parser) typeName() (string, error) {
	t := p.next()
	if t.kind != kindWord {
		return "", p.unexpected(t)
	}
	name := strings.ToLower(t.text)
	if _, ok := p.sign("("); !ok {
		return name, nil
	}
	name += "("
	for {
		t := p.next()
		if t.kind != kindNumber {
			return "", p.unexpected(t)
		}
		name += t.text
		if s, _ := p.sign(",", ")"); s == ")" {
			return name + ")", nil
		} else if s == "" {
			return "", p.unexpected(p.peek())
		}
		name += ","
	}
}

// cases reads CASE [x] WHEN a THEN b ... [ELSE c] END: the arguments are a, b, ..., c of "case", and x, a, b, ..., c of
// "switch".
func (p *parser) cases() (*syntax, error) {
	up, err := p.deeper()
	if err != nil {
		return nil, err
	}
	defer up()
	out := call("case")
	if t := p.peek(); t.kind != kindWord || !strings.EqualFold(t.text, "when") {
		of, err := p.or()
		if err != nil {
			return nil, err
		}
		out = call("switch", of)
	}
	branches := 0
	for p.word("WHEN") {
		when, err := p.or()
		if err != nil {
			return nil, err
		}
		if !p.word("THEN") {
			return nil, p.unexpected(p.peek())
		}
		then, err := p.or()
		if err != nil {
			return nil, err
		}
		out.args = append(out.args, when, then)
		branches++
	}
	last := &syntax{op: "lit", sort: "null"}
	if p.word("ELSE") {
		if last, err = p.or(); err != nil {
			return nil, err
		}
	}
	out.args = append(out.args, last)
	if !p.word("END") || branches == 0 {
		return nil, p.unexpected(p.peek())
	}
	return out, nil
}
