package where

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrSyntax is wrapped by errors about the text of a filter.
var ErrSyntax = errors.New("filter")

const (
	maxText  = 64 << 10 // of a filter (I8)
	maxDepth = 100      // of parentheses
)

// Filter is a parsed filter, not yet bound to columns.
type Filter struct {
	text string
	root node
}

// String gives the text of the filter.
func (f *Filter) String() string { return f.text }

// Columns names the columns that the filter looks at, sorted.
func (f *Filter) Columns() []string {
	var names []string
	f.root.walk(func(l *leaf) {
		if !slices.Contains(names, l.column) {
			names = append(names, l.column)
		}
	})
	slices.Sort(names)
	return names
}

// node is a leaf, or nodes joined by AND or OR. NOT is gone: it is moved down to the leaves, where it turns them
// around, which is right also for null.
type node struct {
	leaf *leaf
	any  bool // OR
	subs []node
}

func (n *node) walk(visit func(*leaf)) {
	if n.leaf != nil {
		visit(n.leaf)
	}
	for i := range n.subs {
		n.subs[i].walk(visit)
	}
}

type op int8

const (
	opEq op = iota
	opNe
	opLt
	opLe
	opGt
	opGe
	opNull
	opNotNull
)

var inverse = [...]op{opEq: opNe, opNe: opEq, opLt: opGe, opGe: opLt, opGt: opLe, opLe: opGt, opNull: opNotNull, opNotNull: opNull}

// leaf compares one column with one literal.
type leaf struct {
	column string
	op     op
	lit    token
}

type kind int8

const (
	kindEnd kind = iota
	kindWord
	kindName // quoted
	kindText
	kindNumber
	kindSign
)

type token struct {
	kind kind
	text string // without quotes
	at   int
}

// Parse reads a filter.
func Parse(text string) (*Filter, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: %d bytes are more than %d", ErrSyntax, len(text), maxText)
	}
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	n, err := p.or(false)
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != kindEnd {
		return nil, p.unexpected(t, "AND, OR or the end")
	}
	return &Filter{text: text, root: n}, nil
}

func scan(s string) ([]token, error) {
	var out []token
	for i := 0; i < len(s); {
		c := s[i]
		start := i
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '\'' || c == '"' || c == '`':
			text, end, ok := quoted(s, i)
			if !ok {
				return nil, fmt.Errorf("%w: the quote at position %d does not end", ErrSyntax, i+1)
			}
			k := kindName
			if c == '\'' {
				k = kindText
			}
			out = append(out, token{k, text, start})
			i = end
		case digit(c) || (c == '-' || c == '+' || c == '.') && i+1 < len(s) && (digit(s[i+1]) || s[i+1] == '.'):
			for i++; i < len(s) && (wordByte(s[i]) || s[i] == '.' || (s[i] == '-' || s[i] == '+') && (s[i-1]|0x20) == 'e'); i++ {
			}
			out = append(out, token{kindNumber, s[start:i], start})
		case wordByte(c):
			for i++; i < len(s) && wordByte(s[i]); i++ {
			}
			out = append(out, token{kindWord, s[start:i], start})
		default:
			i++
			if i < len(s) && slices.Contains([]string{"<=", ">=", "<>", "!=", "=="}, s[start:i+1]) {
				i++
			}
			if !slices.Contains([]string{"(", ")", ",", "=", "==", "!=", "<>", "<", "<=", ">", ">="}, s[start:i]) {
				r, _ := utf8.DecodeRuneInString(s[start:])
				return nil, fmt.Errorf("%w: %q at position %d has no meaning", ErrSyntax, r, start+1)
			}
			out = append(out, token{kindSign, s[start:i], start})
		}
	}
	return append(out, token{kindEnd, "", len(s)}), nil
}

// quoted reads a quoted text; a quote inside is written twice.
func quoted(s string, i int) (text string, end int, ok bool) {
	q := s[i]
	var b strings.Builder
	for i++; i < len(s); i++ {
		if s[i] != q {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			b.WriteByte(q)
			i++
			continue
		}
		return b.String(), i + 1, true
	}
	return "", i, false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func wordByte(c byte) bool {
	return c == '_' || digit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
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

// word takes a keyword when it is next.
func (p *parser) word(w string) bool {
	t := p.peek()
	if t.kind == kindWord && strings.EqualFold(t.text, w) {
		p.at++
		return true
	}
	return false
}

func (p *parser) sign(s string) bool {
	t := p.peek()
	if t.kind == kindSign && t.text == s {
		p.at++
		return true
	}
	return false
}

func (p *parser) unexpected(t token, want string) error {
	if t.kind == kindEnd {
		return fmt.Errorf("%w: it ends where %s is expected", ErrSyntax, want)
	}
	return fmt.Errorf("%w: %q at position %d, where %s is expected", ErrSyntax, t.text, t.at+1, want)
}

// or reads terms joined by OR; not turns all of it around.
func (p *parser) or(not bool) (node, error) {
	return p.list("OR", !not, func() (node, error) { return p.and(not) })
}

func (p *parser) and(not bool) (node, error) {
	return p.list("AND", not, func() (node, error) { return p.term(not) })
}

func (p *parser) list(word string, any bool, sub func() (node, error)) (node, error) {
	n := node{any: any}
	for {
		s, err := sub()
		if err != nil {
			return node{}, err
		}
		n.subs = append(n.subs, s)
		if !p.word(word) {
			break
		}
	}
	if len(n.subs) == 1 {
		return n.subs[0], nil
	}
	return n, nil
}

func (p *parser) term(not bool) (node, error) {
	if p.depth++; p.depth > maxDepth {
		return node{}, fmt.Errorf("%w: nested more than %d deep", ErrSyntax, maxDepth)
	}
	defer func() { p.depth-- }()
	if p.word("NOT") {
		return p.term(!not)
	}
	if p.sign("(") {
		n, err := p.or(not)
		if err != nil {
			return node{}, err
		}
		if !p.sign(")") {
			return node{}, p.unexpected(p.peek(), ")")
		}
		return n, nil
	}
	return p.comparison(not)
}

func (p *parser) comparison(not bool) (node, error) {
	t := p.next()
	if t.kind != kindWord && t.kind != kindName {
		return node{}, p.unexpected(t, "a column")
	}
	one := func(o op, lit token) node {
		if not {
			o = inverse[o]
		}
		return node{leaf: &leaf{column: t.text, op: o, lit: lit}}
	}
	switch {
	case p.word("IS"):
		o := opNull
		if p.word("NOT") {
			o = opNotNull
		}
		if !p.word("NULL") {
			return node{}, p.unexpected(p.peek(), "NULL")
		}
		return one(o, token{}), nil
	case p.word("NOT"):
		if w := p.peek(); !strings.EqualFold(w.text, "IN") && !strings.EqualFold(w.text, "BETWEEN") {
			return node{}, p.unexpected(w, "IN or BETWEEN")
		}
		not = !not
	}
	switch {
	case p.word("IN"):
		return p.in(not, one)
	case p.word("BETWEEN"):
		return p.between(not, one)
	}
	s := p.next()
	ops := map[string]op{"=": opEq, "==": opEq, "!=": opNe, "<>": opNe, "<": opLt, "<=": opLe, ">": opGt, ">=": opGe}
	o, ok := ops[s.text]
	if !ok || s.kind != kindSign {
		return node{}, p.unexpected(s, "a comparison")
	}
	lit, err := p.literal()
	return one(o, lit), err
}

func (p *parser) literal() (token, error) {
	t := p.next()
	switch {
	case t.kind == kindText, t.kind == kindNumber:
		return t, nil
	case t.kind == kindWord && (strings.EqualFold(t.text, "TRUE") || strings.EqualFold(t.text, "FALSE")):
		return t, nil
	case t.kind == kindWord && strings.EqualFold(t.text, "NULL"):
		return t, fmt.Errorf("%w: NULL at position %d: write IS NULL or IS NOT NULL", ErrSyntax, t.at+1)
	}
	return t, p.unexpected(t, "a number, 'text', TRUE or FALSE")
}

func (p *parser) in(not bool, one func(op, token) node) (node, error) {
	if !p.sign("(") {
		return node{}, p.unexpected(p.peek(), "(")
	}
	n := node{any: !not}
	for {
		lit, err := p.literal()
		if err != nil {
			return node{}, err
		}
		n.subs = append(n.subs, one(opEq, lit))
		if p.sign(")") {
			return n, nil
		}
		if !p.sign(",") {
			return node{}, p.unexpected(p.peek(), ", or )")
		}
	}
}

func (p *parser) between(not bool, one func(op, token) node) (node, error) {
	low, err := p.literal()
	if err != nil {
		return node{}, err
	}
	if !p.word("AND") {
		return node{}, p.unexpected(p.peek(), "AND")
	}
	high, err := p.literal()
	return node{any: not, subs: []node{one(opGe, low), one(opLe, high)}}, err
}
