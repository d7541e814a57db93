package protobuf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/protobuf"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// An empty message in a list is two bytes, and a zero in each of its columns: what a message fills that way is bounded
// (I8).
func TestZerosOfEmptyMessagesAreCounted(t *testing.T) {
	const width = 200
	var s strings.Builder
	s.WriteString("syntax = \"proto3\"; message M { repeated W w = 1; enum E { NONE = 0; } message W {")
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
