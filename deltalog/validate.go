package deltalog

import (
	"fmt"
	"slices"
	"strings"
)

// normalize writes empty collections out, as the protocol wants them.
func (m *Metadata) normalize() {
	if m.PartitionColumns == nil {
		m.PartitionColumns = []string{}
	}
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	if m.Format.Options == nil {
		m.Format.Options = map[string]string{}
	}
}

// validMetadata checks the rules that every reader relies on.
func validMetadata(m *Metadata) (*StructType, error) {
	if m.ID == "" {
		return nil, fmt.Errorf("%w: metadata without id", ErrInvalidCommit)
	}
	s, err := ParseSchema(m.SchemaString)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommit, err)
	}
	if err := uniqueNames(s, ""); err != nil {
		return nil, err
	}
	for i, p := range m.PartitionColumns {
		f, ok := s.Field(p)
		if !ok {
			return nil, fmt.Errorf("%w: partition column %q is not in the schema", ErrInvalidCommit, p)
		}
		switch f.Type.(type) {
		case Primitive, Decimal:
		default:
			return nil, fmt.Errorf("%w: partition column %q has type %v", ErrInvalidCommit, p, f.Type)
		}
		if slices.Contains(m.PartitionColumns[:i], p) {
			return nil, fmt.Errorf("%w: partition column %q is named twice", ErrInvalidCommit, p)
		}
	}
	if len(s.Fields) > 0 && len(m.PartitionColumns) == len(s.Fields) {
		return nil, fmt.Errorf("%w: all columns are partition columns", ErrInvalidCommit)
	}
	return s, nil
}

// uniqueNames refuses columns that differ only in case, and names that Parquet files of other engines cannot
// hold without column mapping.
func uniqueNames(s *StructType, prefix string) error {
	seen := map[string]bool{}
	for _, f := range s.Fields {
		low := strings.ToLower(f.Name)
		if seen[low] {
			return fmt.Errorf("%w: column %q exists twice", ErrInvalidCommit, prefix+f.Name)
		}
		seen[low] = true
		if f.Name == "" || strings.ContainsAny(f.Name, " ,;{}()\n\t=") {
			return fmt.Errorf("%w: column name %q: empty names and the characters ' ,;{}()\\n\\t=' need column mapping", ErrInvalidCommit, prefix+f.Name)
		}
		if st, ok := f.Type.(*StructType); ok {
			if err := uniqueNames(st, prefix+f.Name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// actions validates the commit against the snapshot it follows and gives what will be written.
func (t *transaction) actions(snap *Snapshot) (*actions, error) {
	c := &t.c
	protocol, metadata, schema := snap.protocol, snap.metadata, snap.schema
	a := &actions{adds: c.Adds, removes: c.Removes, txns: c.Txns, domains: c.Domains}
	if c.Protocol != nil {
		protocol, a.protocol = c.Protocol, c.Protocol
		if err := checkUpgrade(snap.protocol, c.Protocol); err != nil {
			return nil, err
		}
	}
	if c.Metadata != nil {
		m := *c.Metadata
		m.normalize()
		s, err := validMetadata(&m)
		if err != nil {
			return nil, err
		}
		metadata, schema, a.metadata = &m, s, &m
		if err := c.checkEnablement(snap, &m); err != nil {
			return nil, err
		}
	}
	if err := snap.CheckWritable(); err != nil {
		return nil, err
	}
	if err := checkWrite(protocol, metadata, schema); err != nil {
		return nil, err
	}
	if err := a.checkDuplicates(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommit, err)
	}
	if err := checkAdds(c.Adds, metadata); err != nil {
		return nil, err
	}
	for i := range c.Domains {
		if !slices.Contains(protocol.WriterFeatures, "domainMetadata") {
			return nil, fmt.Errorf("%w: the table does not have the feature domainMetadata", ErrInvalidCommit)
		}
		if strings.HasPrefix(c.Domains[i].Domain, "delta.") {
			return nil, fmt.Errorf("%w: domain %q belongs to the protocol", ErrInvalidCommit, c.Domains[i].Domain)
		}
	}
	return a, c.checkRemoves(metadata)
}

// checkEnablement refuses metadata that turns on what the protocol does not have or what needs work beyond
// writing the setting.
func (c *Commit) checkEnablement(snap *Snapshot, m *Metadata) error {
	p := snap.protocol
	if c.Protocol != nil {
		p = c.Protocol
	}
	const ict = "delta.enableInCommitTimestamps"
	if m.Configuration[ict] == "true" && snap.metadata.Configuration[ict] != "true" {
		return &UnsupportedError{Write: true, Features: []string{"turning on in-commit timestamps of an existing table"}}
	}
	need, err := protocolFor(mustSchema(m), newSettings(m, snap.metadata))
	if err != nil {
		return err
	}
	for _, f := range need.WriterFeatures {
		legacy := f != "timestampNtz" && f != "inCommitTimestamp" && p.MinWriterVersion >= 2 && p.MinWriterVersion < 7
		if !legacy && !slices.Contains(p.WriterFeatures, f) && f != "inCommitTimestamp" {
			return fmt.Errorf("%w: the new metadata needs feature %s in the protocol", ErrInvalidCommit, f)
		}
	}
	return nil
}

// newSettings are the settings that were not there before: the ones in force already are the protocol's matter.
func newSettings(m, old *Metadata) map[string]string {
	out := map[string]string{}
	for k, v := range m.Configuration {
		if old.Configuration[k] != v {
			out[k] = v
		}
	}
	return out
}

func mustSchema(m *Metadata) *StructType {
	s, err := schemaOf(m)
	if err != nil {
		return &StructType{}
	}
	return s
}

func checkAdds(adds []Add, m *Metadata) error {
	seen := make(map[string]bool, len(adds))
	for i := range adds {
		x := &adds[i]
		if x.Path == "" || x.Size < 0 {
			return fmt.Errorf("%w: add of %q with size %d", ErrInvalidCommit, x.Path, x.Size)
		}
		if _, err := DecodePath(x.Path); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidCommit, err)
		}
		k := canonicalPath(x.Path)
		if seen[k] {
			return fmt.Errorf("%w: second add of %q", ErrInvalidCommit, x.Path)
		}
		seen[k] = true
		if len(x.PartitionValues) != len(m.PartitionColumns) {
			return fmt.Errorf("%w: add of %q has %d partition values, the table has %d partition columns", ErrInvalidCommit,
				x.Path, len(x.PartitionValues), len(m.PartitionColumns))
		}
		for _, p := range m.PartitionColumns {
			if _, ok := x.PartitionValues[p]; !ok {
				return fmt.Errorf("%w: add of %q has no value for partition column %q", ErrInvalidCommit, x.Path, p)
			}
		}
	}
	return nil
}

func (c *Commit) checkRemoves(m *Metadata) error {
	appendOnly := strings.EqualFold(m.Configuration["delta.appendOnly"], "true")
	for i := range c.Removes {
		r := &c.Removes[i]
		if r.Path == "" {
			return fmt.Errorf("%w: remove without path", ErrInvalidCommit)
		}
		if appendOnly && r.DataChange {
			return fmt.Errorf("%w: the table is append-only (delta.appendOnly): cannot remove %q", ErrInvalidCommit, r.Path)
		}
	}
	return nil
}
