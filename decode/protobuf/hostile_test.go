package protobuf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// An empty message in a list is two bytes, and a zero in each of its columns: what a message fills that way is bounded
// (I8).
func TestZerosOfEmptyMessagesAreCounted(t *testing.T) {
	const width = 200
	var s strings.Builder
	s.WriteString("syntax = \"proto3\"; message M { repeated W w = 1; enum E { N = 0; } message W {")
	for i := range width {
		typ := []string{"int64", "string", "bool", "E", "double"}[i%5]
		fmt.Fprintf(&s, "%s f%d = %d;", typ, i, i+1)
	}
	s.WriteString("} }")
	srv := srfake.New()
	t.Cleanup(srv.Close)
	id, _, err := srv.RegisterSchema("x-value", sr.Schema{Type: sr.TypeProtobuf, Schema: s.String()})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close() })
	f := protobuf.Confluent(reg, "x-value", "")
	cols, err := f.Columns(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.NewDecoder(cols)
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{1: true, 1000: true, 4 << 20 / width: true, 4<<20/width + 1: false, 500_000: false} {
		rows := d.Rows()
		err := d.Append(framed(id, "\x00", []byte(strings.Repeat("\x0a\x00", n))))
		var bad *decode.Error
		if ok && (err != nil || d.Rows() != rows+1) || !ok && (!errors.As(err, &bad) || d.Rows() != rows) {
			t.Errorf("%d empty messages of %d fields: %v, %d rows", n, width, err, d.Rows()-rows)
		}
	}
}

// An element of an enum is a byte in the message, and a name in the column (I8).
func TestNamesOfEnumsAreCounted(t *testing.T) {
	name := strings.Repeat("N", 1000)
	srv := srfake.New()
	t.Cleanup(srv.Close)
	id, _, err := srv.RegisterSchema("x-value", sr.Schema{Type: sr.TypeProtobuf,
		Schema: `syntax = "proto3"; message M { repeated E e = 1; enum E { ` + name + ` = 0; } }`})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close() })
	f := protobuf.Confluent(reg, "x-value", "")
	cols, err := f.Columns(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := f.NewDecoder(cols)
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{4000: true, 5000: false} {
		var bad *decode.Error
		if err := d.Append(framed(id, "\x00", protowire.AppendBytes([]byte{1<<3 | 2}, make([]byte, n)))); ok && err != nil || !ok && !errors.As(err, &bad) {
			t.Errorf("%d names of 1000 bytes: %v", n, err)
		}
	}
}

// Messages that have each other twice have exponentially many columns: no table is made of them, and that is said at once (I8).
func TestTooManyColumns(t *testing.T) {
	const depth = 60
	var b strings.Builder
	b.WriteString("syntax = \"proto3\"; message M { L0 x = 1; }")
	for d := range depth {
		fmt.Fprintf(&b, " message L%d { L%d a = 1; L%d b = 2; }", d, d+1, d+1)
	}
	fmt.Fprintf(&b, " message L%d { int32 z = 1; }", depth)
	srv := srfake.New()
	t.Cleanup(srv.Close)
	if _, _, err := srv.RegisterSchema("x-value", sr.Schema{Type: sr.TypeProtobuf, Schema: b.String()}); err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Open(registry.Config{URLs: []string{srv.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reg.Close() })
	if _, err := protobuf.Confluent(reg, "x-value", "").Columns(t.Context(), nil); !errors.Is(err, protobuf.ErrSchema) || !strings.Contains(err.Error(), "more than 100000 columns") {
		t.Errorf("Columns = %v", err)
	}
}
