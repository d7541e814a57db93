package format

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
)

// plainJSON is one JSON object a value.
type plainJSON struct{}

func (plainJSON) Columns(_ context.Context, samples [][]byte) (*arrow.Schema, error) {
	return decode.InferJSON(samples)
}

func (plainJSON) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	return decode.ForTable(payload)
}

// opaque leaves values as they are. Columns that the table has stay null.
type opaque struct{}

func (opaque) Columns(context.Context, [][]byte) (*arrow.Schema, error) {
	return arrow.NewSchema(nil, nil), nil
}

func (opaque) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	if payload.NumFields() == 0 {
		return decode.NewRaw(), nil
	}
	d, err := decode.ForTable(payload)
	if err != nil {
		return nil, err
	}
	return nulls{d}, nil
}

type nulls struct{ *decode.JSON }

// Append adds a row of nulls, and refuses it where a column may not be null.
func (n nulls) Append([]byte) error { return n.JSON.Append(nil) }
