package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSpec says that a transform cannot be: its text, or a column that the table does not have.
var ErrSpec = errors.New("transform")

// Policy says what a record is whose expression gives no value.
type Policy string

// The policies. With none, a missing value is null and one of the wrong type makes the record a dead letter.
const (
	Null       Policy = "null"        // both are null
	DeadLetter Policy = "dead-letter" // both make the record a dead letter
	Fail       Policy = "fail"        // both end the run, with the position
)

// Field is one column and where it comes from.
type Field struct {
	Property string `json:"property" yaml:"property"`
	Source   string `json:"source" yaml:"source"`
	// Type is the Delta type of the column where it is still to be made, as date or decimal(10,2). Default: by the source.
	Type string `json:"type,omitempty" yaml:"type,omitempty"`
	// Default is JSON that takes the place of a missing value.
	Default string `json:"default,omitempty" yaml:"default,omitempty"`
	OnError Policy `json:"on-error,omitempty" yaml:"on-error,omitempty"`
}

// Spec is all that happens to the records of a topic. The zero value changes nothing.
type Spec struct {
	Set []Field `json:"set,omitempty" yaml:"set,omitempty"`
	// Rename gives fields of the value another column: old name to new one.
	Rename map[string]string `json:"rename,omitempty" yaml:"rename,omitempty"`
	// Drop names fields of the value that fill no column.
	Drop []string `json:"drop,omitempty" yaml:"drop,omitempty"`
	// Where is a JMESPath expression over the record, {"kafka": {...}} with the names of the sources; a record for which it
	// is not true becomes no row. It is asked before the value is decoded.
	Where string `json:"where,omitempty" yaml:"where,omitempty"`
}

// Property is the table property that holds the Spec by which an application fills the table, so that readers of the
// log make the same rows.
func Property(app string) string { return "ledgerlake.transform." + app }

// ParseField reads "PROPERTY: SOURCE", split at the first colon.
func ParseField(text string) (Field, error) {
	property, source, ok := strings.Cut(text, ":")
	f := Field{Property: strings.TrimSpace(property), Source: strings.TrimSpace(source)}
	if !ok || f.Property == "" || f.Source == "" {
		return Field{}, fmt.Errorf("%w %q: want PROPERTY: SOURCE, as in date: substr(created, `0`, `10`)", ErrSpec, text)
	}
	return f, nil
}

// Parse makes a Spec of texts like "PROPERTY: SOURCE".
func Parse(texts []string) (Spec, error) {
	var s Spec
	for _, text := range texts {
		f, err := ParseField(text)
		if err != nil {
			return Spec{}, err
		}
		s.Set = append(s.Set, f)
	}
	return s, s.Validate()
}

// Empty says that the Spec changes nothing.
func (s Spec) Empty() bool {
	return len(s.Set) == 0 && len(s.Rename) == 0 && len(s.Drop) == 0 && s.Where == ""
}

// String is the Spec as the table property has it; empty for an empty one.
func (s Spec) String() string {
	if s.Empty() {
		return ""
	}
	raw, err := json.Marshal(s)
	if err != nil { // it holds strings alone
		panic(err)
	}
	return string(raw)
}

// Of reads the Spec of an application from a table's properties; an empty one where there is none.
func Of(properties map[string]string, app string) (Spec, error) {
	var s Spec
	text, ok := properties[Property(app)]
	if !ok || text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("table property %s: %w", Property(app), err)
	}
	return s, s.Validate()
}

// fields are the transforms, those of renames included.
func (s Spec) fields() []Field {
	out := slices.Clone(s.Set)
	for _, old := range slices.Sorted(mapKeys(s.Rename)) {
		out = append(out, Field{Property: s.Rename[old], Source: quoted(old)})
	}
	return out
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// quoted is a name as an identifier of JMESPath.
func quoted(name string) string {
	raw, _ := json.Marshal(name) // a string
	return string(raw)
}

// Dropped are the fields of the value that fill no column of their own name.
func (s Spec) Dropped() []string {
	out := slices.Clone(s.Drop)
	for old := range s.Rename {
		out = append(out, old)
	}
	return out
}

// Validate checks all that can be checked without a table.
func (s Spec) Validate() error {
	seen := map[string]bool{}
	fields := s.fields()
	if len(fields) > maxFields {
		return fmt.Errorf("%w: %d columns are set, and at most %d can be", ErrSpec, len(fields), maxFields)
	}
	for _, f := range fields {
		if err := f.validate(); err != nil {
			return err
		}
		for name := range seen {
			if name == f.Property || strings.HasPrefix(name, f.Property+".") || strings.HasPrefix(f.Property, name+".") {
				return fmt.Errorf("%w %q: another one fills %q", ErrSpec, f.Property, name)
			}
		}
		seen[f.Property] = true
		if _, err := compile(f); err != nil {
			return err
		}
	}
	for _, name := range s.Dropped() {
		if name == "" {
			return fmt.Errorf("%w: a field to drop or rename has no name", ErrSpec)
		}
	}
	if s.Where != "" {
		if _, err := compileWhere(s.Where); err != nil {
			return err
		}
	}
	return nil
}

// maxFields and maxProperty bound what a Spec of a table's property may ask for (I8).
const (
	maxFields   = 2000
	maxProperty = 1000
)

func (f Field) validate() error {
	if len(f.Property) > maxProperty || len(f.Source) > maxSource {
		return fmt.Errorf("%w %.40q: a column of %d bytes and an expression of %d; at most %d and %d are taken", ErrSpec,
			f.Property, len(f.Property), len(f.Source), maxProperty, maxSource)
	}
	switch f.OnError {
	case "", Null, DeadLetter, Fail:
	default:
		return fmt.Errorf("%w %q: policy %q is not null, dead-letter or fail", ErrSpec, f.Property, f.OnError)
	}
	if f.Property == "" || slices.Contains(strings.Split(f.Property, "."), "") {
		return fmt.Errorf("%w %q: an empty name", ErrSpec, f.Property)
	}
	if f.Default != "" && !json.Valid([]byte(f.Default)) {
		return fmt.Errorf("%w %q: the default %s is not JSON; write text in double quotes", ErrSpec, f.Property, f.Default)
	}
	if f.Type != "" {
		if _, err := parseType(f.Type); err != nil {
			return fmt.Errorf("%w %q: %w", ErrSpec, f.Property, err)
		}
	}
	return nil
}

// OfBatch names a source of the Spec that is known of a batch alone, not of a record that was taken out of one, as out of
// a table; "" when there is none.
func (s Spec) OfBatch() string {
	var programs []*node
	for _, f := range s.fields() {
		if n, err := compile(f); err == nil {
			programs = append(programs, n)
		}
	}
	if s.Where != "" {
		if n, err := compileWhere(s.Where); err == nil {
			programs = append(programs, n)
		}
	}
	for _, n := range programs {
		if name := ofBatch(n); name != "" {
			return name
		}
	}
	return ""
}

func ofBatch(n *node) string {
	switch {
	case n.op == opMeta && (n.meta == metaTimestampType || n.meta == metaLeaderEpoch):
		return "kafka." + metaNames()[n.meta]
	case n.op == opTree && n.tree.kafka:
		return "kafka as a whole"
	}
	for _, a := range n.args {
		if name := ofBatch(a); name != "" {
			return name
		}
	}
	return ""
}
