package deltalog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

const (
	mappingMode     = "delta.columnMapping.mode"
	mappingMaxID    = "delta.columnMapping.maxColumnId"
	mappingID       = "delta.columnMapping.id"
	mappingPhysical = "delta.columnMapping.physicalName"
)

// MappingMode says how data files name their columns: "none" (by name), "name" (by physical name) or "id" (by
// Parquet field id). Empty for a mode that is not known.
func (m *Metadata) MappingMode() string { return mappingOf(m.Configuration) }

func mappingOf(conf map[string]string) string {
	switch mode := strings.ToLower(conf[mappingMode]); mode {
	case "", "none":
		return "none"
	case "name", "id":
		return mode
	}
	return ""
}

// PhysicalName is the name of a column in data files, statistics and partition values: that of the column mapping
// if the field has one, else its own. Only tables with a mapping mode go by it.
func (f *StructField) PhysicalName() string {
	var name string
	if raw, ok := f.MetadataValue(mappingPhysical); ok && json.Unmarshal(raw, &name) == nil && name != "" {
		return name
	}
	return f.Name
}

// FieldID is the column's Parquet field id under column mapping.
func (f *StructField) FieldID() (int64, bool) {
	var id int64
	raw, ok := f.MetadataValue(mappingID)
	if !ok || json.Unmarshal(raw, &id) != nil {
		return 0, false
	}
	return id, true
}

// fileNames gives the names of the partition columns as partition values have them.
func (m *Metadata) fileNames(s *StructType) []string {
	if m.MappingMode() == "none" {
		return m.PartitionColumns
	}
	out := make([]string, len(m.PartitionColumns))
	for i, p := range m.PartitionColumns {
		out[i] = p
		if f, ok := s.Field(p); ok {
			out[i] = f.PhysicalName()
		}
	}
	return out
}

// assignMapping gives every field that lacks them an id and a physical name. Columns that are already in data
// files keep their name there; new ones get a random one, so that a column dropped and added again finds nothing
// of its predecessor. It returns the highest id.
func assignMapping(s *StructType, old *StructType, maxID int64) int64 {
	existing := map[string]bool{}
	if old != nil {
		walkFields(old, "", func(path string, f *StructField) { existing[path] = true })
	}
	walkFields(s, "", func(_ string, f *StructField) {
		if id, ok := f.FieldID(); ok {
			maxID = max(maxID, id)
		}
	})
	walkFields(s, "", func(path string, f *StructField) {
		if _, ok := f.FieldID(); !ok {
			maxID++
			f.setMetadata(mappingID, maxID)
		}
		if _, ok := f.MetadataValue(mappingPhysical); !ok {
			name := f.Name
			if !existing[path] {
				name = "col-" + uuid.NewString()
			}
			f.setMetadata(mappingPhysical, name)
		}
	})
	return maxID
}

// setMetadata sets one entry of the field's metadata and keeps the others as they are.
func (f *StructField) setMetadata(key string, value any) {
	m := map[string]json.RawMessage{}
	if len(f.Metadata) > 0 && json.Unmarshal(f.Metadata, &m) != nil {
		m = map[string]json.RawMessage{}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return // names and numbers always encode
	}
	m[key] = raw
	if raw, err = json.Marshal(m); err == nil {
		f.Metadata = raw
	}
}

// checkMapping verifies that ids and physical names are there and unique, as readers of either mode need them.
func checkMapping(m *Metadata, s *StructType) error {
	if m.MappingMode() == "none" {
		return nil
	}
	ids, names := map[int64]string{}, map[string]string{}
	limit, err := strconv.ParseInt(m.Configuration[mappingMaxID], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: column mapping without %s", ErrInvalidCommit, mappingMaxID)
	}
	var bad error
	walkFields(s, "", func(path string, f *StructField) {
		id, ok := f.FieldID()
		_, named := f.MetadataValue(mappingPhysical)
		at := path[:len(path)-len(f.Name)] + f.PhysicalName()
		switch {
		case bad != nil:
		case !ok || !named:
			bad = fmt.Errorf("%w: column %q has no column mapping id or physical name", ErrInvalidCommit, path)
		case id > limit:
			bad = fmt.Errorf("%w: column %q has id %d above %s=%d", ErrInvalidCommit, path, id, mappingMaxID, limit)
		case ids[id] != "":
			bad = fmt.Errorf("%w: columns %q and %q have the same id %d", ErrInvalidCommit, ids[id], path, id)
		case names[at] != "":
			bad = fmt.Errorf("%w: columns %q and %q have the same physical name", ErrInvalidCommit, names[at], path)
		}
		ids[id], names[at] = path, path
	})
	return bad
}
