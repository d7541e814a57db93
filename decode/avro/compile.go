package avro

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/sink"
)

// op is what one instruction does with the bytes at the position.
type op uint8

const (
	opInt64     op = iota // a varint into a column of int64
	opInt32               // a varint into a column of int32
	opInt                 // a varint into any column that takes integers
	opScale               // a varint, times b or divided by -b, into a timestamp column
	opFloat               // 4 bytes
	opDouble              // 8 bytes
	opBool                //
	opText                // bytes of a string, into a string column
	opBytes               // bytes into a binary column, or into a string column if they are UTF-8
	opFixed               // a bytes
	opEnum                // a symbol
	opDecimal             // bytes of a decimal of scale b
	opDecimalN            // a bytes of a decimal of scale b
	opUUID                // 16 bytes of a UUID, as text
	opNull                // nothing: the column is null
	opRefuse              // nothing: the message is bad, for the reason in text
	opUnion               // the branch: goes on at jumps[branch]
	opJump                // goes on at a
	opRecord              // nothing: the struct's fields are written
	opArray               // blocks of elements; the body ends at a
	opMap                 // blocks of entries; the body ends at a
	opSkipInt             //
	opSkipBytes           //
	opSkip                // a bytes
	opSkipArray           // blocks of elements; the body ends at a
	opSkipMap             // blocks of entries; the body ends at a
	opCall                // the skipping of a named type, from a to where opReturn is
	opReturn              //
)

// instr is one step of a program. Steps of a body of an array or map follow it, up to a.
type instr struct {
	op     op
	sink   *sink.Sink
	a      int
	b      int64
	least  int // bytes of an element at the least
	blank  int // cells of an element that its bytes do not tell
	jumps  []int
	enum   [][]byte
	text   string
	callee *node  // of an opCall, until the program is placed
	path   string // from the enclosing body, or the row
}

// program writes messages of one schema into the columns.
type program struct {
	steps    []instr
	bad      *decode.Error // the schema does not go with the table: so is each message of it
	root     *node
	declared *arrow.Schema // by root, once somebody has asked
}

// compiler resolves the schema of a writer against the columns.
type compiler struct {
	steps  []instr
	blank  int // cells in the body that is compiled that are filled without a byte
	sizes  sizes
	skips  map[*node]int
	queued []*node
	calls  []int // steps that call a skip which is not placed yet
}

// compile never fails: what does not fit becomes a program that refuses each message.
func compile(root *node, fields []*sink.Sink) *program {
	c := &compiler{sizes: sizes{}, skips: map[*node]int{}}
	if bad := c.record(root, fields, ""); bad != nil {
		return &program{bad: bad, root: root}
	}
	end := c.emit(instr{op: opJump})
	for len(c.queued) > 0 {
		n := c.queued[0]
		c.queued = c.queued[1:]
		c.skips[n] = len(c.steps)
		c.skipFields(n)
		c.emit(instr{op: opReturn})
	}
	c.steps[end].a = len(c.steps)
	for _, at := range c.calls {
		c.steps[at].a = c.skips[c.steps[at].callee]
	}
	return &program{steps: c.steps, root: root}
}

func (c *compiler) emit(i instr) int {
	c.steps = append(c.steps, i)
	return len(c.steps) - 1
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// record writes the fields that the columns have and skips the others.
func (c *compiler) record(n *node, fields []*sink.Sink, path string) *decode.Error {
	have := map[string]bool{}
	for _, f := range n.fields {
		s := find(fields, f.name)
		if s == nil {
			c.skip(f.typ)
			continue
		}
		have[f.name] = true
		if bad := c.value(f.typ, s, under(path, f.name)); bad != nil {
			return bad
		}
	}
	for _, s := range fields {
		if have[s.Name] {
			continue
		}
		if !s.Nullable {
			return &decode.Error{Path: under(path, s.Name), Reason: fmt.Sprintf("the column may not be null, and the schema %s has no such field", n.name)}
		}
		c.blank += s.Leaves
		c.emit(instr{op: opNull, sink: s, path: under(path, s.Name)})
	}
	return nil
}

func find(fields []*sink.Sink, name string) *sink.Sink {
	for _, s := range fields {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func mismatch(n *node, s *sink.Sink, path string) *decode.Error {
	return &decode.Error{Path: path, Reason: fmt.Sprintf("the schema has %s, which does not fit a column of type %s", n.describe(), s.TypeName())}
}

// value writes a value into a column.
func (c *compiler) value(n *node, s *sink.Sink, path string) *decode.Error {
	switch n.kind {
	case kindNull:
		if !s.Nullable {
			c.emit(instr{op: opRefuse, path: path, text: "null, but the column may not be null"})
			return nil
		}
		c.emit(instr{op: opNull, sink: s, b: int64(s.Leaves), path: path})
		return nil
	case kindUnion:
		return c.union(n, s, path)
	case kindRecord:
		if s.Kind != sink.Struct {
			return mismatch(n, s, path)
		}
		if bad := c.record(n, s.Fields, path); bad != nil {
			return bad
		}
		c.emit(instr{op: opRecord, sink: s, path: path})
		return nil
	case kindArray:
		if s.Kind != sink.List {
			return mismatch(n, s, path)
		}
		return c.body(n, s, opArray, path)
	case kindMap:
		if s.Kind != sink.Map || s.Key.Kind != sink.String {
			return mismatch(n, s, path)
		}
		return c.body(n, s, opMap, path)
	}
	return c.scalar(n, s, path)
}

// body compiles the elements of an array or a map.
func (c *compiler) body(n *node, s *sink.Sink, o op, path string) *decode.Error {
	least := c.sizes.atLeast(n.elem)
	if o == opMap {
		least++
	}
	at := c.emit(instr{op: o, sink: s, path: path, least: least})
	outer := c.blank
	c.blank = 0
	if bad := c.value(n.elem, s.Elem, ""); bad != nil {
		bad.Under(path + "[]")
		return bad
	}
	c.steps[at].a, c.steps[at].blank = len(c.steps), c.blank
	c.blank = outer
	return nil
}

// union writes a union: each branch goes into the one column.
func (c *compiler) union(n *node, s *sink.Sink, path string) *decode.Error {
	at := c.emit(instr{op: opUnion, path: path})
	var ends []int
	outer := c.blank
	for _, b := range n.branches {
		c.blank = 0
		c.steps[at].jumps = append(c.steps[at].jumps, len(c.steps))
		if bad := c.value(b, s, path); bad != nil {
			if n.only() == nil {
				bad.Reason += " (a branch of a union of " + n.words() + ")"
			}
			return bad
		}
		ends = append(ends, c.emit(instr{op: opJump}))
		outer = max(outer, outer+c.blank)
	}
	c.blank = outer
	for _, e := range ends {
		c.steps[e].a = len(c.steps)
	}
	return nil
}

// what is the kind of value that a column must take.
func (n *node) what() sink.Value {
	switch n.logical {
	case "decimal":
		return sink.ValueDecimal
	case "date":
		return sink.ValueDate
	case "timestamp-millis", "timestamp-micros", "timestamp-nanos":
		return sink.ValueInstant
	case "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		return sink.ValueLocal
	}
	switch n.kind {
	case kindBoolean:
		return sink.ValueBool
	case kindInt, kindLong:
		return sink.ValueInt
	case kindFloat, kindDouble:
		return sink.ValueFloat
	case kindString, kindEnum:
		return sink.ValueText
	}
	return sink.ValueBytes
}

func (c *compiler) scalar(n *node, s *sink.Sink, path string) *decode.Error {
	raw := s.Kind == sink.Binary && (n.kind == kindBytes || n.kind == kindFixed) // whatever the bytes mean
	if !s.Takes(n.what()) && !raw {
		return mismatch(n, s, path)
	}
	i := instr{sink: s, path: path, a: n.size, b: int64(n.scale)}
	switch n.kind {
	case kindBoolean:
		i.op = opBool
	case kindInt, kindLong:
		i.op = intOp(n, s, &i)
	case kindFloat:
		i.op = opFloat
	case kindDouble:
		i.op = opDouble
	case kindString:
		i.op = opText
	case kindEnum:
		i.op, i.enum = opEnum, n.symbols
	case kindBytes:
		i.op = opBytes
		if n.logical == "decimal" && !raw {
			i.op = opDecimal
		}
	case kindFixed:
		i.op = opFixed
		if n.size == 0 {
			c.blank++
		}
		switch {
		case raw:
		case n.logical == "decimal":
			i.op = opDecimalN
		case n.logical == "uuid":
			i.op = opUUID
		}
	}
	c.emit(i)
	return nil
}

func intOp(n *node, s *sink.Sink, i *instr) op {
	switch {
	case s.Kind == sink.Timestamp:
		switch n.logical {
		case "date":
			i.b = 24 * 3600 * 1e6
		case "timestamp-millis", "local-timestamp-millis":
			i.b = 1000
		case "timestamp-nanos", "local-timestamp-nanos":
			i.b = -1000
		default:
			i.b = 1
		}
		return opScale
	case s.Kind == sink.Int64:
		return opInt64
	case s.Kind == sink.Int32 && n.kind == kindInt:
		return opInt32
	}
	return opInt
}
