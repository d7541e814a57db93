package reprocess

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

// Record is what a Transform gets. Its bytes are valid during the call only.
type Record struct {
	Partition int32
	record.Record
}

// Result is what became of a record: a new value, nothing, or an error that makes it a dead letter.
type Result struct {
	Value []byte // of the row; JSON unless the table has no payload columns
	Drop  bool   // the record becomes no row
	Err   error
}

// Transform changes records. It is used by one goroutine at a time; a job makes several.
type Transform interface {
	// Apply gives one result for each record, in their order. An error is for the call as a whole, and it is
	// made again later; a record that cannot be changed has an error of its own in its Result.
	Apply(ctx context.Context, in []Record) ([]Result, error)
	Close() error
}

// Func is a Transform made of a function of one record.
type Func func(r Record) Result

// Apply implements Transform.
func (f Func) Apply(_ context.Context, in []Record) ([]Result, error) {
	out := make([]Result, len(in))
	for i := range in {
		out[i] = f(in[i])
	}
	return out, nil
}

// Close implements Transform.
func (Func) Close() error { return nil }

// system are the names under which a record's coordinates stand beside the fields of its value.
type system struct {
	Partition int32    `json:"_partition"`
	Offset    int64    `json:"_offset"`
	Timestamp string   `json:"_timestamp,omitempty"`
	Key       *string  `json:"_key"`
	Headers   []header `json:"_headers"`
	Value     *string  `json:"_value,omitempty"` // only where the value is no JSON object
	Error     string   `json:"_error,omitempty"` // why a record was refused, for a sink
}

type header struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

func text64(b []byte) *string {
	if b == nil {
		return nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return &s
}

// line is a record as one JSON object: its coordinates in the form of `ledgerlake read`, and the fields of its value.
func line(dst []byte, r *Record, refused string) ([]byte, error) {
	s := system{Partition: r.Partition, Offset: int64(r.Offset), Key: text64(r.Key), Headers: []header{}, Error: refused}
	if r.Timestamp >= 0 {
		s.Timestamp = time.UnixMilli(r.Timestamp).UTC().Format(time.RFC3339Nano)
	}
	for _, h := range r.Headers {
		s.Headers = append(s.Headers, header{string(h.Key), text64(h.Value)})
	}
	value := bytes.TrimSpace(r.Value)
	object := len(value) > 1 && value[0] == '{' && json.Valid(value)
	var err error
	if !object {
		s.Value = text64(r.Value)
	} else if value, err = withoutSystem(value); err != nil { // fields of these names would hide the record's own place
		return dst, fmt.Errorf("read the record at offset %d: %w", r.Offset, err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return dst, fmt.Errorf("encode the record at offset %d: %w", r.Offset, err)
	}
	if !object || len(bytes.TrimSpace(value[1:len(value)-1])) == 0 {
		return append(dst, raw...), nil
	}
	dst = append(dst, raw[:len(raw)-1]...)
	dst = append(dst, ',')
	var compact bytes.Buffer // a value may have line ends inside
	if err := json.Compact(&compact, value); err != nil {
		return dst, err
	}
	return append(dst, compact.Bytes()[1:]...), nil
}

// systemNames are those of system. Fields of a value with such a name are not passed on, and no row has them from a command.
var systemNames = []string{"_partition", "_offset", "_timestamp", "_key", "_headers", "_value", "_error"}

// withoutSystem takes the fields out of an object that are named as coordinates are.
func withoutSystem(value []byte) ([]byte, error) {
	if !bytes.Contains(value, []byte(`"_`)) && !bytes.Contains(value, []byte(`\u005`)) { // which is how an underscore may be written
		return value, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, err
	}
	before := len(fields)
	for _, name := range systemNames {
		delete(fields, name)
	}
	if len(fields) == before {
		return value, nil
	}
	return json.Marshal(fields)
}
