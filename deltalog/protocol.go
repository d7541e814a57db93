package deltalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Features that only a reader has to know about, and what this package does with them. The log of a table with
// one of these can be replayed; whether its data files can be read is for the layer above to say, see
// Snapshot.ReaderFeatures.
func readableFeature(name string) bool {
	switch name {
	case "deletionVectors", "columnMapping", "timestampNtz", "timestampWithoutTimezone", "v2Checkpoint",
		"typeWidening", "typeWidening-preview", "vacuumProtocolCheck",
		"variantType", "variantType-preview", "variantShredding", "variantShredding-preview":
		return true
	}
	return false
}

// Features whose rules a writer keeps by what this package does (or by doing nothing).
func writableFeature(name string) bool {
	switch name {
	case "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
		"timestampNtz", "timestampWithoutTimezone", "v2Checkpoint", "deletionVectors", "domainMetadata",
		"inCommitTimestamp", "vacuumProtocolCheck", "allowColumnDefaults", "typeWidening", "typeWidening-preview",
		"checkpointProtection":
		return true
	}
	return false
}

// Features under which versions may be committed outside of _delta_log: even reading would be stale.
func managedFeature(name string) bool {
	return name == "catalogManaged" || strings.HasPrefix(name, "catalogOwned") ||
		strings.HasPrefix(name, "coordinatedCommits") || strings.HasPrefix(name, "managedCommit")
}

// checkRead refuses protocols that this package cannot replay.
func checkRead(p *Protocol) error {
	var missing []string
	for _, f := range p.WriterFeatures {
		if managedFeature(f) && p.MinWriterVersion >= 7 {
			missing = append(missing, "feature "+f+" (the table is managed by a catalog)")
		}
	}
	switch {
	case p.MinReaderVersion < 1 || p.MinReaderVersion > 3:
		missing = append(missing, fmt.Sprintf("reader version %d", p.MinReaderVersion))
	case p.MinReaderVersion == 3:
		for _, f := range p.ReaderFeatures {
			if !readableFeature(f) && !slices.Contains(p.WriterFeatures, f) || !readableFeature(f) && !managedFeature(f) {
				missing = append(missing, "reader feature "+f)
			}
		}
	}
	if p.MinReaderVersion == 3 && p.MinWriterVersion < 7 {
		missing = append(missing, fmt.Sprintf("protocol (3,%d): reader version 3 needs writer version 7", p.MinWriterVersion))
	}
	return unsupported(false, missing)
}

// checkWrite refuses to write where a rule of the table would not be kept. Supported is not active: the legacy
// versions and several features only bind when the schema or the settings use them.
func checkWrite(p *Protocol, m *Metadata, s *StructType) error {
	if err := checkRead(p); err != nil {
		return err
	}
	var missing []string
	switch {
	case p.MinWriterVersion < 1 || p.MinWriterVersion > 7:
		missing = append(missing, fmt.Sprintf("writer version %d", p.MinWriterVersion))
	case p.MinWriterVersion == 7:
		for _, f := range p.WriterFeatures {
			if f == "columnMapping" {
				continue // judged by the mode below
			}
			if !writableFeature(f) {
				missing = append(missing, "writer feature "+f)
			}
		}
	}
	for k := range m.Configuration {
		if strings.HasPrefix(k, "delta.constraints.") && p.MinWriterVersion >= 3 {
			missing = append(missing, "check constraint "+strings.TrimPrefix(k, "delta.constraints."))
		}
	}
	if mode := m.Configuration["delta.columnMapping.mode"]; mode != "" && mode != "none" {
		missing = append(missing, "column mapping mode "+mode)
	}
	walkFields(s, "", func(path string, f *StructField) {
		if f.Type == Variant {
			missing = append(missing, "variant column "+path)
		}
		missing = append(missing, activeColumnRules(path, f)...)
	})
	sort.Strings(missing)
	return unsupported(true, missing)
}

// activeColumnRules names what a column demands of every row that is written.
func activeColumnRules(path string, f *StructField) []string {
	if len(f.Metadata) == 0 {
		return nil
	}
	var meta map[string]json.RawMessage
	if json.Unmarshal(f.Metadata, &meta) != nil {
		return []string{"metadata of column " + path}
	}
	var out []string
	for key := range meta {
		switch {
		case key == "delta.invariants":
			out = append(out, "invariant of column "+path)
		case key == "delta.generationExpression":
			out = append(out, "generated column "+path)
		case strings.HasPrefix(key, "delta.identity."):
			out = append(out, "identity column "+path)
		}
	}
	return slices.Compact(out)
}

// walkFields visits every struct field at any depth.
func walkFields(t DataType, prefix string, visit func(path string, f *StructField)) {
	switch t := t.(type) {
	case *StructType:
		for i := range t.Fields {
			f := &t.Fields[i]
			visit(prefix+f.Name, f)
			walkFields(f.Type, prefix+f.Name+".", visit)
		}
	case *ArrayType:
		walkFields(t.Element, prefix+"element.", visit)
	case *MapType:
		walkFields(t.Key, prefix+"key.", visit)
		walkFields(t.Value, prefix+"value.", visit)
	}
}

func unsupported(write bool, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return &UnsupportedError{Write: write, Features: missing}
}

// protocolFor gives the lowest protocol that a new table needs, and refuses settings that ask for more than this
// package can keep.
func protocolFor(s *StructType, conf map[string]string) (Protocol, error) {
	var reader, writer, missing []string
	walkFields(s, "", func(path string, f *StructField) {
		if f.Type == TimestampNTZ && !slices.Contains(reader, "timestampNtz") {
			reader, writer = append(reader, "timestampNtz"), append(writer, "timestampNtz")
		}
	})
	hasNTZ := len(reader) > 0
	legacy := int32(2)
	for k, v := range conf {
		on := strings.EqualFold(v, "true")
		switch {
		case k == "delta.enableInCommitTimestamps" && on:
			writer = append(writer, "inCommitTimestamp")
		case k == "delta.enableChangeDataFeed" && on:
			legacy = 4
		case k == "delta.enableDeletionVectors" && on, k == "delta.enableRowTracking" && on,
			k == "delta.columnMapping.mode" && v != "none", k == "delta.checkpointPolicy" && v != "classic",
			k == "delta.enableTypeWidening" && on, strings.HasPrefix(k, "delta.enableIcebergCompat") && on,
			strings.HasPrefix(k, "delta.feature."), strings.HasPrefix(k, "delta.constraints."):
			missing = append(missing, "setting "+k+"="+v)
		}
	}
	sort.Strings(missing)
	if err := unsupported(true, missing); err != nil {
		return Protocol{}, err
	}
	if len(writer) == 0 {
		return Protocol{MinReaderVersion: 1, MinWriterVersion: legacy}, nil
	}
	writer = append(writer, "appendOnly", "invariants")
	if legacy == 4 {
		writer = append(writer, "checkConstraints", "changeDataFeed", "generatedColumns")
	}
	p := Protocol{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: writer}
	if hasNTZ {
		p.MinReaderVersion, p.ReaderFeatures = 3, reader
	}
	return p, nil
}

// legacyFeatures are the features that a writer version below 7 (and a reader version below 3) stands for.
func legacyFeatures(p *Protocol) []string {
	var out []string
	if w := p.MinWriterVersion; w < 7 {
		for _, f := range []struct {
			from int32
			name string
		}{{2, "appendOnly"}, {2, "invariants"}, {3, "checkConstraints"}, {4, "changeDataFeed"}, {4, "generatedColumns"},
			{5, "columnMapping"}, {6, "identityColumns"}} {
			if w >= f.from {
				out = append(out, f.name)
			}
		}
	}
	return out
}

// checkUpgrade refuses a new protocol that takes away what the table has: dropping a feature needs the history
// rewritten, which this package does not do.
func checkUpgrade(old, p *Protocol) error {
	if p.MinReaderVersion < old.MinReaderVersion || p.MinWriterVersion < old.MinWriterVersion {
		return fmt.Errorf("%w: protocol (%d,%d) is lower than the table's (%d,%d)", ErrInvalidCommit,
			p.MinReaderVersion, p.MinWriterVersion, old.MinReaderVersion, old.MinWriterVersion)
	}
	have := append(legacyFeatures(p), p.WriterFeatures...)
	for _, f := range append(legacyFeatures(old), old.WriterFeatures...) {
		if !slices.Contains(have, f) {
			return fmt.Errorf("%w: the new protocol drops feature %s", ErrInvalidCommit, f)
		}
	}
	for _, f := range old.ReaderFeatures {
		if !slices.Contains(p.ReaderFeatures, f) {
			return fmt.Errorf("%w: the new protocol drops reader feature %s", ErrInvalidCommit, f)
		}
	}
	for _, f := range p.ReaderFeatures {
		if !slices.Contains(p.WriterFeatures, f) {
			return fmt.Errorf("%w: reader feature %s is not among the writer features", ErrInvalidCommit, f)
		}
	}
	return nil
}
