package deltalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Change is what is to become different in a table's metadata and protocol.
type Change struct {
	// Schema replaces the columns; nil keeps them. Fields without metadata keep what the column of that name has.
	Schema *StructType
	// Set and Unset change settings. A setting that needs a feature turns it on.
	Set   map[string]string
	Unset []string
	// Features to turn on besides those that schema and settings ask for.
	Features []string
	// Description replaces the table's description; nil keeps it.
	Description *string
}

// Alter plans a change of the table: the commit holds the new metadata, and the new protocol when the change needs
// one. Files and transactions may be added to it before it is committed, so that a new column and the first rows
// that have it are one version. Id and creation time stay. It refuses changes that existing data files cannot
// follow: columns may be added if they are nullable, their type may widen where the table has type widening, and
// they may be dropped and renamed where it has column mapping.
func (s *Snapshot) Alter(ch Change) (Commit, error) {
	m := *s.metadata
	m.Configuration = maps.Clone(s.metadata.Configuration)
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	for _, k := range ch.Unset {
		delete(m.Configuration, k)
	}
	maps.Copy(m.Configuration, ch.Set)
	if ch.Description != nil {
		m.Description = *ch.Description
	}
	schema := s.schema
	if ch.Schema != nil {
		schema = inherit(ch.Schema, s.schema)
	}
	if err := s.alterMapping(&m, &schema); err != nil {
		return Commit{}, fmt.Errorf("alter table: %w", err)
	}
	if ch.Schema != nil {
		widening := isOn(m.Configuration, "delta.enableTypeWidening")
		if err := evolve(s.schema, schema, &m, widening); err != nil {
			return Commit{}, fmt.Errorf("alter table: %w", err)
		}
	}
	if text := schema.JSON(); text != s.schema.JSON() { // else it stays as somebody wrote it: writers compare the text
		m.SchemaString = text
	}
	need, err := neededFeatures(schema, newSettings(&m, s.metadata))
	if err != nil {
		return Commit{}, fmt.Errorf("alter table: %w", err)
	}
	m.Configuration = withoutFeatureSettings(m.Configuration)
	p, err := s.protocol.raise(append(need, ch.Features...))
	if err != nil {
		return Commit{}, fmt.Errorf("alter table: %w", err)
	}
	c := Commit{ReadVersion: s.version, Operation: "SET TBLPROPERTIES", Metadata: &m}
	if ch.Schema != nil {
		c.Operation = "CHANGE SCHEMA"
	}
	if !slices.Equal(p.Features(), s.protocol.Features()) {
		c.Protocol = &p
	}
	return c, nil
}

// alterMapping applies the rules of the column mapping mode and gives new columns their ids.
func (s *Snapshot) alterMapping(m *Metadata, schema **StructType) error {
	before, after := s.metadata.MappingMode(), m.MappingMode()
	if after == "" {
		return unsupported(true, []string{"column mapping mode " + m.Configuration[mappingMode]})
	}
	if before != after && (before != "none" || after != "name") {
		return fmt.Errorf("%w: column mapping cannot change from %s to %s in a table with data", ErrInvalidCommit, before, after)
	}
	if after == "none" {
		return nil
	}
	maxID, _ := strconv.ParseInt(s.metadata.Configuration[mappingMaxID], 10, 64)
	fresh := (*schema).clone()
	old := s.schema
	if before != "none" {
		old = nil // a column without an id is a new one
	}
	m.Configuration[mappingMaxID] = strconv.FormatInt(assignMapping(fresh, old, maxID), 10)
	*schema = fresh
	return nil
}

// clone copies the fields at every depth; their metadata may then be replaced.
func (s *StructType) clone() *StructType { return cloneType(s).(*StructType) }

func cloneType(t DataType) DataType {
	switch t := t.(type) {
	case *StructType:
		c := &StructType{Fields: slices.Clone(t.Fields)}
		for i := range c.Fields {
			c.Fields[i].Type = cloneType(c.Fields[i].Type)
		}
		return c
	case *ArrayType:
		return &ArrayType{Element: cloneType(t.Element), ContainsNull: t.ContainsNull}
	case *MapType:
		return &MapType{Key: cloneType(t.Key), Value: cloneType(t.Value), ValueContainsNull: t.ValueContainsNull}
	}
	return t
}

// inherit gives fields without metadata what the old field of the same place and name has.
func inherit(s, old *StructType) *StructType {
	out := s.clone()
	inheritType(out, old)
	return out
}

func inheritType(t, old DataType) {
	switch t := t.(type) {
	case *StructType:
		o, ok := old.(*StructType)
		if !ok {
			return
		}
		for i := range t.Fields {
			if f, ok := o.Field(t.Fields[i].Name); ok {
				if len(t.Fields[i].Metadata) == 0 {
					t.Fields[i].Metadata = f.Metadata
				}
				inheritType(t.Fields[i].Type, f.Type)
			}
		}
	case *ArrayType:
		if o, ok := old.(*ArrayType); ok {
			inheritType(t.Element, o.Element)
		}
	case *MapType:
		if o, ok := old.(*MapType); ok {
			inheritType(t.Key, o.Key)
			inheritType(t.Value, o.Value)
		}
	}
}

// evolve checks that data files of the old schema can be read with the new one, and notes widened types.
func evolve(old, s *StructType, m *Metadata, widening bool) error {
	e := evolution{mapped: m.MappingMode() != "none", widening: widening}
	e.fields(old, s, "")
	for _, p := range m.PartitionColumns {
		if _, ok := s.Field(p); !ok {
			e.refuse("partition column %q cannot be dropped or renamed here", p)
		}
	}
	return errors.Join(e.errs...)
}

type evolution struct {
	mapped, widening bool
	errs             []error
}

func (e *evolution) refuse(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidCommit}, args...)...))
}

func (e *evolution) fields(old, s *StructType, prefix string) {
	kept := map[int]bool{}
	for i := range s.Fields {
		f := &s.Fields[i]
		at := slices.IndexFunc(old.Fields, func(o StructField) bool {
			if e.mapped {
				if id, ok := o.FieldID(); ok {
					mine, _ := f.FieldID()
					return id == mine
				}
			}
			return o.Name == f.Name
		})
		if at < 0 {
			if !f.Nullable {
				e.refuse("new column %q must be nullable: rows of existing files have no value", prefix+f.Name)
			}
			continue
		}
		kept[at] = true
		o := &old.Fields[at]
		if o.Nullable && !f.Nullable {
			e.refuse("column %q cannot become NOT NULL: existing rows may be null", prefix+f.Name)
		}
		if e.widening && o.Type.String() != f.Type.String() && widens(o.Type, f.Type) {
			f.noteWidening(o.Type, f.Type)
			continue
		}
		e.types(o.Type, f.Type, prefix+f.Name)
	}
	for i, o := range old.Fields {
		if !kept[i] && !e.mapped {
			e.refuse("column %q cannot be dropped or renamed without column mapping (set %s=name first)", prefix+o.Name, mappingMode)
		}
	}
}

func (e *evolution) types(old, t DataType, path string) {
	switch o := old.(type) {
	case *StructType:
		if n, ok := t.(*StructType); ok {
			e.fields(o, n, path+".")
			return
		}
	case *ArrayType:
		if n, ok := t.(*ArrayType); ok {
			if o.ContainsNull && !n.ContainsNull {
				e.refuse("elements of %q cannot become NOT NULL", path)
			}
			e.types(o.Element, n.Element, path+".element")
			return
		}
	case *MapType:
		if n, ok := t.(*MapType); ok {
			if o.ValueContainsNull && !n.ValueContainsNull {
				e.refuse("values of %q cannot become NOT NULL", path)
			}
			e.types(o.Key, n.Key, path+".key")
			e.types(o.Value, n.Value, path+".value")
			return
		}
	default:
		if old.String() == t.String() || old == Void {
			return
		}
	}
	hint := ""
	if widens(old, t) {
		hint = " (set delta.enableTypeWidening=true first)"
	}
	e.refuse("column %q cannot change from %v to %v%s", path, old, t, hint)
}

// widens says whether the type widening feature allows the change.
func widens(from, to DataType) bool {
	digits := func(t DataType) int32 { // of a whole number
		switch t {
		case Byte:
			return 3
		case Short:
			return 5
		case Integer:
			return 10
		case Long:
			return 20
		}
		return 0
	}
	if d, ok := to.(Decimal); ok {
		if o, ok := from.(Decimal); ok {
			return d.Scale >= o.Scale && d.Precision-d.Scale >= o.Precision-o.Scale && d != o
		}
		n := digits(from)
		return n > 0 && d.Precision-d.Scale >= max(n, 10)
	}
	switch to {
	case Short, Integer, Long:
		return digits(from) > 0 && digits(from) < digits(to)
	case Double:
		return from == Float || digits(from) > 0 && digits(from) <= 10
	case TimestampNTZ:
		return from == Date
	}
	return false
}

// noteWidening records the change in the field's metadata: readers of old files look for it.
func (f *StructField) noteWidening(from, to DataType) {
	var changes []json.RawMessage
	if raw, ok := f.MetadataValue("delta.typeChanges"); ok && json.Unmarshal(raw, &changes) != nil {
		changes = nil
	}
	change, err := json.Marshal(map[string]string{"fromType": from.String(), "toType": to.String()})
	if err != nil {
		return // names always encode
	}
	f.setMetadata("delta.typeChanges", append(changes, change))
}

// protocolFor gives the lowest protocol that a new table needs, and refuses settings that ask for more than this
// package can keep.
func protocolFor(s *StructType, conf map[string]string) (Protocol, error) {
	need, err := neededFeatures(s, conf)
	if err != nil {
		return Protocol{}, err
	}
	return Protocol{MinReaderVersion: 1, MinWriterVersion: 2}.raise(need)
}

// newSettings are the settings that were not there before: the ones in force already are the protocol's matter.
func newSettings(m, old *Metadata) map[string]string {
	out := map[string]string{}
	for k, v := range m.Configuration {
		if !strings.EqualFold(old.Configuration[k], v) {
			out[k] = v
		}
	}
	return out
}
