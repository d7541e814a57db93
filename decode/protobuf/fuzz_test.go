package protobuf_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/ledgerlake/ledgerlake/decode"
)

// FuzzMessage: whatever the bytes, an error is an *Error, and leaves no row and no piece of one (I7, I8).
func FuzzMessage(f *testing.F) {
	d, _, id := orders(f)
	f.Add(append(num(1, 5), str(3, num(1, 7), str(3, []byte{1, 2}))...))
	f.Add(append(str(5, str(1, []byte("k")), num(2, 1)), str(5, str(1, []byte("k")))...))
	f.Add(append(str(7, num(1, 3)), append(str(6, []byte("m")), str(8, num(1, 9))...)...))
	f.Fuzz(func(t *testing.T, value []byte) {
		d.Reset()
		taken := d.Append(framed(id, order, value))
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
		text, err := fields.AppendJSON(nil, framed(id, order, value))
		if err != nil && !errors.As(err, &bad) || err == nil && !json.Valid(text) {
			t.Fatalf("the fields are %s (%v)", text, err)
		}
	})
}
