package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// format is the first byte of commands and snapshots.
//
//	1  2026-11: first
//	2  2026-11: requests have staged actions, metrics and a plan; tables know when their shape changed
//	3  2026-11: requests whose body nobody has read; a plan above all that is decided is refused
//	4  2026-11: removed files as sums; versions that stay open; plans that set positions and stand on the whole table;
//	           a batch says what was published
const (
	format    = 4
	oldFormat = 1 // still read
)

// ErrCorrupt means that a command or snapshot cannot be decoded.
var ErrCorrupt = errors.New("broken entry of the replicated log")

// writer appends values; numbers are varints, strings have their length in front.
type writer struct{ b []byte }

func (w *writer) int(v int64) { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) count(n int) { w.b = binary.AppendUvarint(w.b, uint64(n)) }
func (w *writer) str(s string) {
	w.count(len(s))
	w.b = append(w.b, s...)
}
func (w *writer) bytes(s []byte) {
	w.count(len(s))
	w.b = append(w.b, s...)
}
func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

func (w *writer) sums(s []Sum) {
	w.count(len(s))
	for _, x := range s {
		w.b = binary.BigEndian.AppendUint64(w.b, uint64(x))
	}
}

// numbers writes a map in the order of its keys: the same map gives the same bytes.
func (w *writer) numbers(m map[string]int64) {
	w.count(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.str(k)
		w.int(m[k])
	}
}

func (w *writer) texts(m map[string]string) {
	w.count(len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		w.str(k)
		w.str(m[k])
	}
}

// reader takes values off the front of b. After the first failure everything is zero.
type reader struct {
	b      []byte
	format byte
	err    error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	r.b = nil
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of things of at least size bytes each: never more than what is left can hold (I8).
func (r *reader) count(size int) int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64((len(r.b)-n)/size) {
		r.fail("length")
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

func (r *reader) str() string { return string(r.take()) }

// bytes gives a copy, so that a small value does not keep a whole log entry in memory.
func (r *reader) bytes() []byte { return slices.Clone(r.take()) }

func (r *reader) take() []byte {
	n := r.count(1)
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) bool() bool { return r.byte() == 1 }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("end")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) strs() []string {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.str()
	}
	return out
}

// sums reads files; up to format 3 they were paths.
func (r *reader) sums() []Sum {
	if r.format < 4 {
		var out []Sum
		for _, p := range r.strs() {
			out = append(out, SumOf(p))
		}
		return out
	}
	var out []Sum
	for range r.count(8) {
		out = append(out, r.sum())
	}
	return out
}

func (r *reader) sum() Sum {
	if r.format < 4 {
		return SumOf(r.str())
	}
	if len(r.b) < 8 {
		r.fail("sum")
		return 0
	}
	x := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return Sum(x)
}

func (r *reader) numbers() map[string]int64 {
	n := r.count(2)
	out := make(map[string]int64, n)
	for range n {
		k := r.str()
		out[k] = r.int()
	}
	return out
}

func (r *reader) texts() map[string]string {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	out := make(map[string]string, n)
	for range n {
		k := r.str()
		out[k] = r.str()
	}
	return out
}

// end checks that nothing is left over.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Sprintf("%d bytes left over", len(r.b)))
	}
	return r.err
}
