package parquet

import "encoding/binary"

// The types of Thrift's compact protocol, as field headers and list headers have them.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

// thrift writes Thrift's compact protocol. Structs nest by begin and end; fields come in growing order.
type thrift struct {
	b    []byte
	last int   // id of the field before
	up   []int // of the structs around
}

func (t *thrift) reset(b []byte) { t.b, t.last, t.up = b, 0, t.up[:0] }

func (t *thrift) field(id, typ int) {
	if d := id - t.last; d > 0 && d <= 15 {
		t.b = append(t.b, byte(d<<4|typ))
	} else {
		t.b = binary.AppendVarint(append(t.b, byte(typ)), int64(id))
	}
	t.last = id
}

func (t *thrift) i16(id int, v int64) { t.field(id, thriftI16); t.b = binary.AppendVarint(t.b, v) }
func (t *thrift) i32(id int, v int)   { t.field(id, thriftI32); t.b = binary.AppendVarint(t.b, int64(v)) }
func (t *thrift) i64(id int, v int64) { t.field(id, thriftI64); t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) byte(id int, v byte) { t.field(id, thriftByte); t.b = append(t.b, v) }

func (t *thrift) bool(id int, v bool) {
	if v {
		t.field(id, thriftTrue)
	} else {
		t.field(id, thriftFalse)
	}
}

func (t *thrift) bytes(id int, v []byte) {
	t.field(id, thriftBinary)
	t.b = append(binary.AppendUvarint(t.b, uint64(len(v))), v...)
}

func (t *thrift) string(id int, v string) { t.field(id, thriftBinary); t.elemString(v) }

func (t *thrift) list(id, elem, n int) {
	t.field(id, thriftList)
	if n < 15 {
		t.b = append(t.b, byte(n<<4|elem))
		return
	}
	t.b = binary.AppendUvarint(append(t.b, byte(0xf0|elem)), uint64(n))
}

// elemI32 and its like are elements of a list; elem begins one that is a struct.
func (t *thrift) elemI32(v int)   { t.b = binary.AppendVarint(t.b, int64(v)) }
func (t *thrift) elemI64(v int64) { t.b = binary.AppendVarint(t.b, v) }

func (t *thrift) elemBool(v bool) {
	if v {
		t.b = append(t.b, thriftTrue)
	} else {
		t.b = append(t.b, thriftFalse)
	}
}

func (t *thrift) elemBytes(v []byte) {
	t.b = append(binary.AppendUvarint(t.b, uint64(len(v))), v...)
}

func (t *thrift) elemString(v string) {
	t.b = append(binary.AppendUvarint(t.b, uint64(len(v))), v...)
}

func (t *thrift) elem() { t.up, t.last = append(t.up, t.last), 0 }

// begin starts a struct that is a field.
func (t *thrift) begin(id int) { t.field(id, thriftStruct); t.elem() }

// end ends a struct that begin or elem started.
func (t *thrift) end() {
	t.stop()
	t.last, t.up = t.up[len(t.up)-1], t.up[:len(t.up)-1]
}

// stop ends the outermost struct.
func (t *thrift) stop() { t.b = append(t.b, 0) }
