package deltalog

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Snapshot is the table at one version. It never changes; what its methods give must not be changed either.
type Snapshot struct {
	version   Version
	timestamp int64
	ict       int64
	protocol  *Protocol
	metadata  *Metadata
	schema    *StructType
	txns      map[string]Txn
	domains   map[string]DomainMetadata
	files     view
	graves    view
	light     bool
	count     int64 // light: number of files, as far as it is known
	pending   int64 // bytes of commits since the checkpoint before
}

func (s *state) snapshot() *Snapshot {
	return &Snapshot{version: s.version, timestamp: s.timestamp, ict: s.ict, protocol: s.protocol, metadata: s.metadata,
		schema: s.schema, txns: s.txns, domains: s.domains, light: s.light, count: s.count, pending: s.pending,
		files: s.files.view(s.version), graves: s.graves.view(s.version)}
}

// v2 says whether the table's checkpoints are to be V2 ones.
func (s *Snapshot) v2() bool {
	return s.metadata.Configuration["delta.checkpointPolicy"] == "v2" && slices.Contains(s.protocol.WriterFeatures, "v2Checkpoint")
}

// Version is the newest commit in the snapshot.
func (s *Snapshot) Version() Version { return s.version }

// Timestamp is the time of that commit: its in-commit timestamp, else the time of its file.
func (s *Snapshot) Timestamp() time.Time { return time.UnixMilli(s.timestamp).UTC() }

// Protocol gives the table's protocol.
func (s *Snapshot) Protocol() Protocol { return *s.protocol }

// Metadata gives the table's metadata.
func (s *Snapshot) Metadata() *Metadata { return s.metadata }

// Schema gives the table's schema.
func (s *Snapshot) Schema() *StructType { return s.schema }

// PartitionNames gives the partition columns as Add.PartitionValues names them: by physical name under column mapping.
func (s *Snapshot) PartitionNames() []string { return s.metadata.fileNames(s.schema) }

// ReaderFeatures names what a reader of the data files must handle, sorted: the listed features of a protocol
// with reader version 3, and columnMapping for version 2 when the table uses it. Empty for plain Parquet.
func (s *Snapshot) ReaderFeatures() []string {
	switch s.protocol.MinReaderVersion {
	case 3:
		return slices.Sorted(slices.Values(s.protocol.ReaderFeatures))
	case 2:
		if mode := s.metadata.Configuration["delta.columnMapping.mode"]; mode != "" && !strings.EqualFold(mode, "none") {
			return []string{"columnMapping"}
		}
	}
	return nil
}

// CheckWritable says, as an *UnsupportedError, why this program must not add rows to the table that keep the given ones
// of its RowRules.
func (s *Snapshot) CheckWritable(kept ...RowRule) error {
	return checkWrite(s.protocol, s.metadata, s.schema, kept)
}

// CheckRewritable says, as an *UnsupportedError, why this program must not even move or remove rows of the table,
// write checkpoints or clean up. Rules for new rows (constraints, generated columns) do not count here.
func (s *Snapshot) CheckRewritable() error { return checkRewrite(s.protocol, s.metadata, s.schema) }

// Txn gives the newest version that an application recorded.
func (s *Snapshot) Txn(appID string) (int64, bool) {
	t, ok := s.txns[appID]
	return t.Version, ok
}

// Txns gives the newest recorded version of every application.
func (s *Snapshot) Txns() map[string]int64 {
	m := make(map[string]int64, len(s.txns))
	for id, t := range s.txns {
		m[id] = t.Version
	}
	return m
}

// Domain gives a metadata domain's configuration.
func (s *Snapshot) Domain(name string) (string, bool) {
	d, ok := s.domains[name]
	return d.Configuration, ok
}

// HasFiles says whether the snapshot knows the table's files: that of a Log with Config.NoFiles does not.
func (s *Snapshot) HasFiles() bool { return !s.light }

// NumFiles is the number of files in the table; 0 without HasFiles.
func (s *Snapshot) NumFiles() int { return s.files.live }

// SizeBytes is the sum of their sizes; 0 without HasFiles.
func (s *Snapshot) SizeBytes() int64 { return s.files.bytes }

// NumRows is the number of rows in the table by the statistics of its files, less what deletion vectors remove;
// false when a file does not say, or without HasFiles.
func (s *Snapshot) NumRows() (int64, bool) {
	sum := int64(0)
	for b, i := range s.files.each() {
		n, ok := numRecords(b.statsAt(i))
		if !ok {
			return 0, false
		}
		sum += n
		if dv := b.dv(i); dv != nil {
			sum -= dv.Cardinality
		}
	}
	return sum, !s.light
}

// Files gives the table's files, older ones first; nothing without HasFiles. Each is a value of its own that the
// caller may keep; what it points to is shared.
func (s *Snapshot) Files() iter.Seq[*Add] {
	return func(yield func(*Add) bool) {
		for b, i := range s.files.each() {
			a := new(Add)
			if b.addAt(i, a); !yield(a) {
				return
			}
		}
	}
}

// Removed gives the tombstones that the log still holds; nothing without HasFiles. Expired ones
// (delta.deletedFileRetentionDuration) may be left out, and so are statistics and tags.
func (s *Snapshot) Removed() iter.Seq[*Remove] {
	return func(yield func(*Remove) bool) {
		for b, i := range s.graves.each() {
			x := new(Remove)
			if b.removeAt(i, x); !yield(x) {
				return
			}
		}
	}
}
