package reprocess

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/decode/format"
	"github.com/ledgerlake/ledgerlake/decode/transform"
	"github.com/ledgerlake/ledgerlake/record"
)

// filling is how the source's table is filled, as it records it. A job that changes no values makes its rows the same
// way; the others give JSON, whatever they were given.
type filling struct {
	values *format.Format // nil: JSON or raw, as the columns tell
	spec   transform.Spec
	topic  string
}

// filledNow are the properties of the source's table that say how it is filled.
func (j *Job) filledNow() map[string]string {
	if j.cfg.Table == nil {
		return nil
	}
	have, out := j.cfg.Table.Properties(), map[string]string{}
	for _, key := range []string{transform.Property(j.cfg.Topic), format.Property(j.cfg.Topic)} {
		if v, ok := have[key]; ok {
			out[key] = v
		}
	}
	return out
}

// learn takes up how the source's table is filled, as these properties of it say.
func (j *Job) learn(have map[string]string) (err error) {
	if err := j.fill.close(); err != nil {
		return err
	}
	j.fill, j.filter = filling{}, transform.Spec{}
	spec, err := transform.Of(have, j.cfg.Topic)
	if err != nil {
		return fmt.Errorf("the source's table: %w", err)
	}
	if j.pool != nil || !j.isTable() {
		spec = transform.Spec{Where: spec.Where} // values go to the job as they are
		j.filter = spec
	}
	if name := spec.OfBatch(); name != "" {
		return fmt.Errorf("%w: the source's table is filled by transforms or a filter that look at %s, which its rows do not keep: no job can make the same rows", ErrSpec, name)
	}
	f, err := format.Of(have, j.cfg.Topic, format.Access{})
	switch {
	case err != nil || f == nil && (j.pool != nil || !j.isTable()):
		return err
	case j.pool != nil && j.cfg.Transform == nil && len(j.cfg.Spec.Command) == 0 && !strings.HasPrefix(f.Name, format.JSON):
		return errors.Join(fmt.Errorf("%w: its expressions read JSON, and the values of %s are %s: use a command that reads them", ErrSpec, j.cfg.Topic, f.Name), f.Close())
	case (j.pool != nil || !j.isTable()) && spec.LooksAtValues():
		return errors.Join(fmt.Errorf("%w: the filter of the source's table looks at values that are %s: only a job that makes the same rows can leave out the same records", ErrSpec, f.Name), f.Close())
	case j.pool != nil || !j.isTable():
		return f.Close()
	}
	j.fill.values, j.fill.topic, j.fill.spec = f, j.cfg.Topic, spec
	return nil
}

// fits refuses columns of the new table that what fills the source's cannot fill, before there is a table.
func (f *filling) fits(payload *arrow.Schema) error {
	if f.spec.Empty() {
		return nil
	}
	if _, err := f.newDecoder(payload); err != nil {
		return fmt.Errorf("%w: the source's table is filled by transforms, which do not go with the columns of the new one: %w", ErrSpec, err)
	}
	return nil
}

// keepRows leaves out the records that the source's filter leaves out, so that a job which changes values gets the same
// ones from the log as from the table. What the filter cannot judge stays: the job says what becomes of it.
func keepRows(in []Record, filter transform.Spec, topic string) ([]Record, error) {
	if filter.Empty() || len(in) == 0 {
		return in, nil
	}
	none := arrow.NewSchema(nil, nil)
	json, err := decode.ForTable(none)
	if err != nil {
		return nil, err
	}
	d, err := transform.New(json, filter, topic, false)
	if err != nil {
		return nil, err
	}
	kept := in[:0]
	for i := range in {
		d.Begin(in[i].Partition, record.BatchHeader{LeaderEpoch: -1})
		if err := d.AppendRecord(&in[i].Record); !errors.Is(err, decode.ErrFiltered) {
			kept = append(kept, in[i])
		}
	}
	return kept, nil
}

// plain says that values are JSON or raw and nothing else fills columns.
func (f *filling) plain() bool { return f.values == nil && f.spec.Empty() }

func (f *filling) newDecoder(payload *arrow.Schema) (decode.Decoder, error) {
	raw := payload.NumFields() == 0
	return transform.Wrap(func(payload *arrow.Schema) (decode.Decoder, error) {
		switch {
		case f.values != nil:
			return f.values.NewDecoder(payload)
		case raw:
			return decode.NewRaw(), nil
		}
		return decode.ForTable(payload)
	}, payload, f.spec, f.topic)
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
