package deltalog

import (
	"fmt"
	"slices"
	"sort"
)

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
			if named := managedFeature(f) && slices.Contains(p.WriterFeatures, f); !featureOf(f).replay && !named {
				missing = append(missing, "reader feature "+f)
			}
		}
	}
	if p.MinReaderVersion == 3 && p.ReaderFeatures == nil { // what such a table needs is not known
		missing = append(missing, fmt.Sprintf("protocol (3,%d) without readerFeatures", p.MinWriterVersion))
	}
	if p.MinReaderVersion == 3 && p.MinWriterVersion < 7 {
		missing = append(missing, fmt.Sprintf("protocol (3,%d): reader version 3 needs writer version 7", p.MinWriterVersion))
	}
	return unsupported(false, missing)
}

// checkWrite refuses to add data where a rule of the table would not be kept: one that kept does not hold. Supported is
// not active: the legacy versions and several features only bind when the schema or the settings use them.
func checkWrite(p *Protocol, m *Metadata, s *StructType, kept []RowRule) error {
	missing, err := cannotWrite(p, m, s)
	if err != nil {
		return err
	}
	for _, r := range rowRules(p, m, s) {
		if !slices.Contains(kept, r) {
			missing = append(missing, r.Name)
		}
	}
	sort.Strings(missing)
	return unsupported(true, missing)
}

// checkRewrite is checkWrite for changes that bring no new rows: what holds for the rows of the table holds for
// them wherever they are moved.
func checkRewrite(p *Protocol, m *Metadata, s *StructType) error {
	missing, err := cannotWrite(p, m, s)
	if err != nil {
		return err
	}
	sort.Strings(missing)
	return unsupported(true, missing)
}

// cannotWrite names what forbids any write.
func cannotWrite(p *Protocol, m *Metadata, s *StructType) ([]string, error) {
	if err := checkRead(p); err != nil {
		return nil, err
	}
	var missing []string
	switch {
	case p.MinWriterVersion < 1 || p.MinWriterVersion > 7:
		missing = append(missing, fmt.Sprintf("writer version %d", p.MinWriterVersion))
	case p.MinWriterVersion == 7:
		for _, f := range p.WriterFeatures {
			if !featureOf(f).keep {
				missing = append(missing, "writer feature "+f)
			}
		}
	}
	switch mode := m.MappingMode(); {
	case mode == "":
		missing = append(missing, "column mapping mode "+m.Configuration[mappingMode])
	case mode != "none" && !slices.Contains(p.Features(), "columnMapping"):
		missing = append(missing, "column mapping mode "+mode+" without the feature in the protocol")
	}
	for _, f := range s.Fields {
		if holdsType(f.Type, Variant) {
			missing = append(missing, "variant column "+f.Name)
		}
	}
	return missing, nil
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

// holdsType says whether a type has the given one anywhere in it: in elements of arrays and maps too.
func holdsType(t DataType, want Primitive) bool {
	switch t := t.(type) {
	case *StructType:
		return slices.ContainsFunc(t.Fields, func(f StructField) bool { return holdsType(f.Type, want) })
	case *ArrayType:
		return holdsType(t.Element, want)
	case *MapType:
		return holdsType(t.Key, want) || holdsType(t.Value, want)
	}
	return t == want
}

func unsupported(write bool, missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return &UnsupportedError{Write: write, Features: missing}
}
