package reprocess

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/internal/registry"
)

// filling is how the source's table is filled, as it records it. A job that changes no values makes its rows the same
// way; the others give JSON, whatever they were given.
type filling struct {
	values *format.Format // nil: JSON or raw, as the columns tell
	spec   transform.Spec
	topic  string
}

// learn finds how the source's table is filled.
func (j *Job) learn() (err error) {
	if j.cfg.Table == nil {
		return nil
	}
	have := j.cfg.Table.Properties()
	f, err := format.Of(have, j.cfg.Topic, registry.Config{})
	switch {
	case err != nil || f == nil && j.pool != nil:
		return err
	case j.pool != nil && j.cfg.Transform == nil && len(j.cfg.Spec.Command) == 0 && !strings.HasPrefix(f.Name, format.JSON):
		return errors.Join(fmt.Errorf("%w: its expressions read JSON, and the values of %s are %s: use a command that reads them", ErrSpec, j.cfg.Topic, f.Name), f.Close())
	case j.pool != nil:
		return f.Close()
	}
	j.fill.values, j.fill.topic = f, j.cfg.Topic
	j.fill.spec, err = transform.Of(have, j.cfg.Topic)
	return err
}

// plain says that values are JSON or raw and nothing else fills columns.
func (f *filling) plain() bool { return f.values == nil && f.spec.Empty() }

func (f *filling) newDecoder(payload *arrow.Schema) (d decode.Decoder, err error) {
	switch {
	case f.values != nil:
		d, err = f.values.NewDecoder(payload)
	case payload.NumFields() == 0:
		d = decode.NewRaw()
	default:
		d, err = decode.ForTable(payload)
	}
	if err != nil {
		return nil, err
	}
	return transform.Wrap(d, payload, f.spec, f.topic)
}

// properties are what the new table records of it for an application.
func (f *filling) properties(app string) map[string]string {
	out := map[string]string{transform.Property(app): f.spec.String()}
	if f.values != nil {
		out[format.Property(app)] = f.values.String()
	}
	return out
}

func (f *filling) close() error {
	if f.values == nil {
		return nil
	}
	return f.values.Close()
}
