package avro_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
	"github.com/ledgerlake/ledgerlake/decode/decodetest"
)

// shared is a type of n levels of records, each used twice by the one above: 2^n records of the last type.
func shared(n int, last string) string {
	s := fmt.Sprintf(`{"type":"record","name":"R%d","fields":[%s]}`, n, last)
	for i := n - 1; i >= 0; i-- {
		s = fmt.Sprintf(`{"type":"record","name":"R%d","fields":[{"name":"a","type":%s},{"name":"b","type":"R%d"}]}`, i, s, i+1)
	}
	return s
}

// container is an object container file of one record.
func container(schema string, body []byte) []byte {
	const sync = "0123456789abcdef"
	b := binary.AppendVarint([]byte("Obj\x01\x02\x16avro.schema"), int64(len(schema)))
	b = append(append(b, schema...), "\x00"+sync+"\x02"...)
	b = binary.AppendVarint(b, int64(len(body)))
	return append(append(b, body...), sync...)
}

// A message of a few kilobytes that names 2^45 records without a byte, or 2^45 ways to none: the work on it, the schema
// in it included, stays in proportion to its bytes (I8). Without that this test does not end.
func TestSharedTypesAreNoWork(t *testing.T) {
	empty, null := shared(45, ""), shared(45, `{"name":"z","type":"null"},{"name":"f","type":{"type":"fixed","name":"F","size":0}}`)
	for name, c := range map[string]struct{ typ, body string }{
		"empty":               {empty, ""},
		"null":                {null, ""},
		"array":               {`{"type":"array","items":` + empty + `}`, "\x00"},
		"array with elements": {`{"type":"array","items":` + null + `}`, "\x80\x80\x80\x02\x00"},
		"map":                 {`{"type":"map","values":` + null + `}`, "\x02\x02k\x00"},
		"union":               {`["null",` + empty + `]`, "\x02"},
	} {
		d, err := avro.Container().NewDecoder(one("n", arrow.PrimitiveTypes.Int64, true))
		if err != nil {
			t.Fatal(err)
		}
		schema := rec(`{"name":"x","type":` + c.typ + `},{"name":"n","type":"long"}`)
		if err := d.Append(container(schema, []byte(c.body+"\x02"))); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := decodetest.Plain(d.Arrays()[0], 0); fmt.Sprint(got) != "1" {
			t.Errorf("%s: n = %v, want 1", name, got)
		}
		if err := d.Append(container(schema, []byte(c.body))); err == nil {
			t.Errorf("%s: a message without n is taken", name)
		}
	}
	d, err := avro.Container().NewDecoder(one("n", arrow.PrimitiveTypes.Int64, true))
	if err != nil {
		t.Fatal(err)
	}
	full := shared(45, `{"name":"v","type":"int"}`) // of which no message has the bytes
	var bad *decode.Error
	if err := d.Append(container(rec(`{"name":"x","type":`+full+`},{"name":"n","type":"long"}`), []byte{2, 2})); !errors.As(err, &bad) {
		t.Errorf("a message that ends inside its records: %v", err)
	}
	for _, typ := range []string{empty, full} {
		if _, err := avro.Container().Columns(t.Context(), [][]byte{container(rec(`{"name":"x","type":`+typ+`}`), nil)}); err == nil || !strings.Contains(err.Error(), "columns") {
			t.Errorf("2^45 columns: %v", err)
		}
	}
}

// Records around records may cost a few steps a byte, not hundreds (I8).
func TestDeepRecordsAroundAByte(t *testing.T) {
	for depth, ok := range map[int]bool{10: true, 60: true, 150: false} {
		typ := `"int"`
		for i := range depth {
			typ = fmt.Sprintf(`{"type":"record","name":"N%d","fields":[{"name":"f","type":%s}]}`, i, typ)
		}
		const elements = 1000
		d := rawDecoder(t, rec(`{"name":"x","type":{"type":"array","items":`+typ+`}},{"name":"n","type":"long"}`), one("n", arrow.PrimitiveTypes.Int64, true))
		b := binary.AppendVarint(nil, elements)
		b = append(append(b, make([]byte, elements)...), 0, 2)
		err := d.Append(b)
		var bad *decode.Error
		if ok && err != nil || !ok && (!errors.As(err, &bad) || !strings.Contains(bad.Reason, "nested records a byte")) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// An element of an enum is a byte in the message, and a symbol in the column: a container brings its own schema, and with
// it symbols of any length (I8).
func TestSymbolsOfEnumsAreCounted(t *testing.T) {
	schema := rec(`{"name":"e","type":{"type":"array","items":{"type":"enum","name":"E","symbols":["` + strings.Repeat("S", 1000) + `"]}}}`)
	d, err := avro.Container().NewDecoder(one("e", arrow.ListOf(arrow.BinaryTypes.String), true))
	if err != nil {
		t.Fatal(err)
	}
	for n, ok := range map[int]bool{4000: true, 5000: false} {
		b := binary.AppendVarint(nil, int64(n))
		err := d.Append(container(schema, append(b, make([]byte, n+1)...)))
		var bad *decode.Error
		if ok && err != nil || !ok && (!errors.As(err, &bad) || !strings.Contains(bad.Reason, "too much text")) {
			t.Errorf("%d symbols of 1000 bytes: %v", n, err)
		}
	}
}
