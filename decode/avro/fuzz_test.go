package avro_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/avro"
)

// FuzzMessage: whatever the bytes and the schema, an error is an *Error, and leaves no row and no piece of one (I7, I8).
func FuzzMessage(f *testing.F) {
	schema := rec(`{"name":"a","type":["null","long"]},{"name":"m","type":{"type":"map","values":{"type":"array","items":["null","string"]}}},
		{"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":20,"scale":2}},{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}}`)
	f.Add(schema, []byte("\x02\x06\x02\x02k\x02\x02\x02v\x00\x00\x02\x05\x08"))
	f.Add(rec(`{"name":"r","type":["null","R"]},{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}}`), []byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, schema string, value []byte) {
		format, err := avro.Raw(schema)
		if err != nil {
			return
		}
		columns, err := format.Columns(t.Context(), nil)
		if err != nil {
			columns = one("a", decimalType, true)
		}
		d, err := format.NewDecoder(columns)
		if err != nil {
			return
		}
		taken := d.Append(value)
		var bad *decode.Error
		if taken != nil && !errors.As(taken, &bad) {
			t.Fatalf("Append = %v", taken)
		}
		rows := d.Rows()
		for i, a := range d.Arrays() {
			if a.Len() != rows || taken == nil != (rows == 1) {
				t.Fatalf("column %d has %d rows, want %d (%v)", i, a.Len(), rows, taken)
			}
		}
		// What expressions see of it is JSON, or it is as bad.
		fields, err := d.(decode.FieldReader).NewFields(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := fields.AppendJSON(nil, value)
		if err != nil && !errors.As(err, &bad) || err == nil && !json.Valid(text) {
			t.Fatalf("the fields are %s (%v)", text, err)
		}
	})
}

// FuzzContainer does the same with whole files.
func FuzzContainer(f *testing.F) {
	f.Add([]byte("Obj\x01\x02\x16avro.schema\x0c\"null\"\x000123456789abcdef\x02\x000123456789abcdef"))
	f.Fuzz(func(t *testing.T, value []byte) {
		d, err := avro.Container().NewDecoder(one("a", decimalType, true))
		if err != nil {
			t.Fatal(err)
		}
		var bad *decode.Error
		if err := d.Append(value); err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		}
	})
}
