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
	if err := uniqueNames(s, "", m.MappingMode() != "none"); err != nil {
		return nil, err
	}
	if err := checkMapping(m, s); err != nil {
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
func uniqueNames(s *StructType, prefix string, mapped bool) error {
	seen := map[string]bool{}
	for _, f := range s.Fields {
		low := strings.ToLower(f.Name)
		if seen[low] {
			return fmt.Errorf("%w: column %q exists twice", ErrInvalidCommit, prefix+f.Name)
		}
		seen[low] = true
		if !ValidName(f.Name, mapped) {
			return fmt.Errorf("%w: column name %q: empty names and the characters ' ,;{}()\\n\\t=' need column mapping", ErrInvalidCommit, prefix+f.Name)
		}
		if st, ok := f.Type.(*StructType); ok {
			if err := uniqueNames(st, prefix+f.Name+".", mapped); err != nil {
				return err
			}
		}
	}
	return nil
}

// ValidName says whether a column, or a field of a struct, may have the name; mapped says that the table maps columns.
func ValidName(name string, mapped bool) bool {
	return name != "" && (mapped || !strings.ContainsAny(name, " ,;{}()\n\t="))
}

// actions validates the commit against the snapshot it follows and gives what will be written. ict is the
// commit's time, should the table have or get in-commit timestamps.
func (t *transaction) actions(snap *Snapshot, ict int64) (*actions, error) {
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
		if err := checkNewMetadata(protocol, &m, s, snap); err != nil {
			return nil, err
		}
		enableTimestamps(&m, snap, ict)
	}
	check := checkRewrite
	if c.addsData() {
		check = func(p *Protocol, m *Metadata, s *StructType) error { return checkWrite(p, m, s, c.RowRules) }
	}
	if err := errors.Join(check(snap.protocol, snap.metadata, snap.schema), check(protocol, metadata, schema)); err != nil {
		return nil, err
	}
	if err := a.checkDuplicates(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidCommit, err)
	}
	if err := checkAdds(c.Adds, protocol, metadata.fileNames(schema)); err != nil {
		return nil, err
	}
	if err := checkClustering(c.Adds, snap); err != nil {
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

// checkNewMetadata refuses metadata that turns on what the protocol does not have, and that makes another table
// of this one.
func checkNewMetadata(p *Protocol, m *Metadata, s *StructType, snap *Snapshot) error {
	if m.ID != snap.metadata.ID {
		return fmt.Errorf("%w: the table's id is %s, the new metadata has %s: streams that read the table would break", ErrInvalidCommit, snap.metadata.ID, m.ID)
	}
	if m.CreatedTime == nil {
		m.CreatedTime = snap.metadata.CreatedTime
	}
	if !slices.Equal(m.PartitionColumns, snap.metadata.PartitionColumns) && (snap.light || snap.NumFiles() > 0) {
		return fmt.Errorf("%w: partition columns cannot change in a table with files", ErrInvalidCommit)
	}
	need, err := neededFeatures(s, newSettings(m, snap.metadata))
	if err != nil {
		return err
	}
	have := p.Features()
	for _, f := range need {
		alias := f == "timestampNtz" && slices.Contains(have, "timestampWithoutTimezone") ||
			f == "typeWidening" && slices.Contains(have, "typeWidening-preview")
		if !slices.Contains(have, f) && !alias {
			return fmt.Errorf("%w: the new metadata needs feature %s in the protocol: plan it with Snapshot.Alter", ErrInvalidCommit, f)
		}
	}
	return nil
}

// enableTimestamps records from which version on commits carry their own time; readers search times before it
// by those of the files. It is written anew on each attempt, since the version is known only then.
func enableTimestamps(m *Metadata, snap *Snapshot, ict int64) {
	was, is := isOn(snap.metadata.Configuration, ictSetting), isOn(m.Configuration, ictSetting)
	if was == is {
		return
	}
	m.Configuration = maps.Clone(m.Configuration)
	if !is {
		delete(m.Configuration, ictFromVersion)
		delete(m.Configuration, ictFromTime)
		return
	}
	m.Configuration[ictFromVersion] = strconv.FormatInt(int64(snap.version)+1, 10)
	m.Configuration[ictFromTime] = strconv.FormatInt(ict, 10)
}

func checkAdds(adds []Add, p *Protocol, partitions []string) error {
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
		if len(x.PartitionValues) != len(partitions) {
			return fmt.Errorf("%w: add of %q has %d partition values, the table has %d partition columns", ErrInvalidCommit,
				x.Path, len(x.PartitionValues), len(partitions))
		}
		for _, name := range partitions {
			if _, ok := x.PartitionValues[name]; !ok {
				return fmt.Errorf("%w: add of %q has no value for partition column %q", ErrInvalidCommit, x.Path, name)
			}
		}
		if x.DeletionVector == nil {
			continue
		}
		if !slices.Contains(p.ReaderFeatures, "deletionVectors") {
			return fmt.Errorf("%w: add of %q has a deletion vector, the table does not have the feature", ErrInvalidCommit, x.Path)
		}
		if _, ok := x.NumRecords(); !ok {
			return fmt.Errorf("%w: add of %q has a deletion vector but no numRecords in its statistics", ErrInvalidCommit, x.Path)
		}
	}
	return nil
}

// checkClustering keeps the rule of the clustering feature: every file has statistics of the clustering columns.
func checkClustering(adds []Add, snap *Snapshot) error {
	domain, ok := snap.Domain("delta.clustering")
	if !ok || len(adds) == 0 {
		return nil
	}
	var clustering struct {
		Columns [][]string `json:"clusteringColumns"`
	}
	if err := json.Unmarshal([]byte(domain), &clustering); err != nil {
		return fmt.Errorf("%w: domain delta.clustering of the table: %w", ErrInvalidCommit, err)
	}
	for i := range adds {
		stats, _ := ParseStats(adds[i].Stats)
		for _, path := range clustering.Columns {
			if !hasStat(stats.NullCount, path) {
				return fmt.Errorf("%w: add of %q has no statistics of clustering column %s", ErrInvalidCommit, adds[i].Path, strings.Join(path, "."))
			}
		}
	}
	return nil
}

// hasStat says whether a tree of statistics has a leaf of that path.
func hasStat(tree map[string]json.RawMessage, path []string) bool {
	for i, name := range path {
		raw, ok := tree[name]
		if !ok || i == len(path)-1 {
			return ok
		}
		tree = nil
		if json.Unmarshal(raw, &tree) != nil {
			return false
		}
	}
	return false
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
