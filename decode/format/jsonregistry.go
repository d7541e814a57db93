package format

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/confluent"
	"github.com/ledgerlake/ledgerlake/decode/jsonschema"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// registeredJSON is JSON behind a schema id. The schema tells the columns of a new table and, on request, which values
// are valid; the values themselves are decoded like any JSON.
type registeredJSON struct {
	subject  string
	validate bool
	schemas  *confluent.Schemas[*jsonschema.Schema]
}

func newRegisteredJSON(reg *registry.Client, subject string, validate bool) decode.Format {
	return &registeredJSON{subject: subject, validate: validate,
		schemas: confluent.NewSchemas(reg, registry.JSON, func(s *registry.Schema) (*jsonschema.Schema, error) {
			refs := map[string]string{}
			for _, r := range s.Refs {
				refs[r.Name] = r.Text
			}
			return jsonschema.Parse(s.Text, refs)
		})}
}

func (f *registeredJSON) Columns(ctx context.Context, samples [][]byte) (*arrow.Schema, error) {
	s, _, err := f.schemas.ForTable(ctx, f.subject, samples)
	if err != nil {
		return nil, err
	}
	return s.Columns()
}

func (f *registeredJSON) NewDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	j, err := decode.ForTable(payload)
	if err != nil {
		return nil, err
	}
	return &registeredJSONDecoder{JSON: j, format: f}, nil
}

type registeredJSONDecoder struct {
	*decode.JSON
	format *registeredJSON
}

func (d *registeredJSONDecoder) Append(value []byte) error {
	if value == nil {
		return d.JSON.Append(nil)
	}
	id, bad := confluent.ID(value)
	if bad != nil {
		return bad
	}
	body := value[confluent.HeaderSize:]
	if d.format.validate {
		s, err := d.format.schemas.ByID(id)
		if err != nil {
			return err
		}
		if err := s.Validate(body); err != nil {
			return &decode.Error{Reason: err.Error(), Pos: confluent.HeaderSize}
		}
	}
	err := d.JSON.Append(body)
	if bad, ok := err.(*decode.Error); ok { //nolint:errorlint // made by the line above
		bad.Pos += confluent.HeaderSize
	}
	return err
}
