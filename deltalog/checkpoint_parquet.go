package deltalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// wantedColumns are the action columns and the fields of them that are read; everything else in a checkpoint is
// ignored, as the protocol asks. A field stands for all that is below it.
var wantedColumns = map[string]string{
	"txn":                "appId version lastUpdated",
	"add":                "path partitionValues size modificationTime dataChange tags deletionVector baseRowId defaultRowCommitVersion clusteringProvider stats",
	"remove":             "path deletionTimestamp dataChange extendedFileMetadata partitionValues size stats tags deletionVector baseRowId defaultRowCommitVersion",
	"metaData":           "id name description format schemaString partitionColumns configuration createdTime",
	"protocol":           "minReaderVersion minWriterVersion readerFeatures writerFeatures",
	"domainMetadata":     "domain configuration removed",
	"checkpointMetadata": "version",
	"sidecar":            "path sizeInBytes modificationTime",
}

type parquetSource interface {
	io.ReaderAt
	io.Seeker
}

// parseParquet reads one parquet file of a checkpoint. Panics of the decoder on hostile bytes become errors (I8).
func parseParquet(ctx context.Context, src parquetSource) (out *actions, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("parquet decoder: %v", r)
		}
	}()
	f, err := file.NewParquetReader(src)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fr, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	leaves := chooseLeaves(f)
	if len(leaves) == 0 {
		return nil, errors.New("no action columns")
	}
	rr, err := fr.GetRecordReader(ctx, leaves, nil)
	if err != nil {
		return nil, err
	}
	defer rr.Release()
	out = &actions{}
	in := newInterner()
	for rr.Next() {
		if err := out.fromRecord(rr.RecordBatch(), in); err != nil {
			return nil, err
		}
	}
	if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return out, nil
}

// chooseLeaves gives the leaf columns to decode. Struct statistics are decoded only when there are no JSON ones.
func chooseLeaves(f *file.Reader) []int {
	sc := f.MetaData().Schema
	var leaves, parsed []int
	stats := -1
	for i := range sc.NumColumns() {
		p := sc.Column(i).ColumnPath()
		fields, ok := wantedColumns[p[0]]
		if !ok || len(p) < 2 {
			continue
		}
		if p[0] == "add" && p[1] == "stats_parsed" {
			parsed = append(parsed, i)
			continue
		}
		if !strings.Contains(" "+fields+" ", " "+p[1]+" ") {
			continue
		}
		if p[0] == "add" && p[1] == "stats" {
			stats = i
		}
		leaves = append(leaves, i)
	}
	if stats < 0 || allNull(f, stats) {
		leaves = append(leaves, parsed...)
	}
	return leaves
}

// allNull says whether the column's statistics prove that it holds nothing.
func allNull(f *file.Reader, column int) bool {
	for g := range f.NumRowGroups() {
		rg := f.MetaData().RowGroup(g)
		cc, err := rg.ColumnChunk(column)
		if err != nil {
			return false
		}
		st, err := cc.Statistics()
		if err != nil || st == nil || !st.HasNullCount() || st.NullCount() != rg.NumRows() {
			return false
		}
	}
	return true
}

// structReader gives the fields of one struct column by name. Fields that are missing read as null.
type structReader struct {
	arr    *array.Struct
	fields map[string]arrow.Array
}

func structOf(a arrow.Array) (structReader, error) {
	st, ok := a.(*array.Struct)
	if !ok {
		return structReader{}, fmt.Errorf("column is %v, want a struct", a.DataType())
	}
	r := structReader{arr: st, fields: make(map[string]arrow.Array, st.NumField())}
	for i, f := range st.DataType().(*arrow.StructType).Fields() {
		r.fields[f.Name] = st.Field(i)
	}
	return r, nil
}

func (r structReader) has(name string, i int) bool {
	a := r.fields[name]
	return a != nil && !a.IsNull(i)
}

func (r structReader) text(name string, i int) string {
	s, _ := textAt(r.fields[name], i)
	return s
}

func textAt(a arrow.Array, i int) (string, bool) {
	if a == nil || a.IsNull(i) {
		return "", false
	}
	switch a := a.(type) {
	case *array.String:
		return strings.Clone(a.Value(i)), true
	case *array.LargeString:
		return strings.Clone(a.Value(i)), true
	case *array.Binary:
		return string(a.Value(i)), true
	}
	return "", false
}

func (r structReader) int(name string, i int) (int64, bool) {
	a := r.fields[name]
	if a == nil || a.IsNull(i) {
		return 0, false
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i), true
	case *array.Int32:
		return int64(a.Value(i)), true
	case *array.Timestamp:
		return int64(a.Value(i)), true
	}
	return 0, false
}

func (r structReader) intPtr(name string, i int) *int64 {
	if v, ok := r.int(name, i); ok {
		return &v
	}
	return nil
}

func (r structReader) bool(name string, i int) (value, ok bool) {
	a, isBool := r.fields[name].(*array.Boolean)
	if !isBool || a.IsNull(i) {
		return false, false
	}
	return a.Value(i), true
}

// entries calls visit for each entry of a map; the names of its inner columns do not matter.
func (r structReader) entries(name string, i int, visit func(k string, v *string)) bool {
	m, ok := r.fields[name].(*array.Map)
	if !ok || m.IsNull(i) {
		return false
	}
	from, to := m.ValueOffsets(i)
	for j := int(from); j < int(to); j++ {
		k, _ := textAt(m.Keys(), j)
		var v *string
		if s, ok := textAt(m.Items(), j); ok {
			v = &s
		}
		visit(k, v)
	}
	return true
}

func (r structReader) nullableMap(name string, i int) map[string]*string {
	var out map[string]*string
	if r.entries(name, i, func(k string, v *string) {
		if out == nil {
			out = map[string]*string{}
		}
		out[k] = v
	}) && out == nil {
		out = noValues()
	}
	return out
}

func (r structReader) plainMap(name string, i int) map[string]string {
	out := map[string]string{}
	r.entries(name, i, func(k string, v *string) {
		if v != nil {
			out[k] = *v
		} else {
			out[k] = ""
		}
	})
	return out
}

// texts reads a list of strings; nil when it is null.
func (r structReader) texts(name string, i int) []string {
	l, ok := r.fields[name].(array.ListLike)
	if !ok || l.IsNull(i) {
		return nil
	}
	from, to := l.ValueOffsets(i)
	out := make([]string, 0, to-from)
	for j := from; j < to; j++ {
		s, _ := textAt(l.ListValues(), int(j))
		out = append(out, s)
	}
	return out
}

// fromRecord takes the actions out of a batch.
func (a *actions) fromRecord(rec arrow.RecordBatch, in *interner) error {
	for c, field := range rec.Schema().Fields() {
		r, err := structOf(rec.Column(c))
		if err != nil {
			return fmt.Errorf("column %s: %w", field.Name, err)
		}
		read := a.rowReader(field.Name, r, in)
		if read == nil {
			continue
		}
		for i := range r.arr.Len() {
			if r.arr.IsNull(i) {
				continue
			}
			if err := read(i); err != nil {
				return fmt.Errorf("column %s: %w", field.Name, err)
			}
		}
	}
	return nil
}

func (a *actions) rowReader(column string, r structReader, in *interner) func(i int) error {
	switch column {
	case "add":
		stats := newStatsReader(r.fields["stats_parsed"])
		return func(i int) error { return a.addRow(r, in, stats, i) }
	case "remove":
		return func(i int) error { return a.removeRow(r, in, i) }
	case "txn":
		return func(i int) error { return a.txnRow(r, i) }
	case "metaData":
		return func(i int) error { return a.metadataRow(r, i) }
	case "protocol":
		return func(i int) error { return a.protocolRow(r, i) }
	case "domainMetadata":
		return func(i int) error {
			removed, _ := r.bool("removed", i)
			a.domains = append(a.domains, DomainMetadata{Domain: r.text("domain", i), Configuration: r.text("configuration", i), Removed: removed})
			return nil
		}
	case "sidecar":
		return func(i int) error {
			size, _ := r.int("sizeInBytes", i)
			a.sidecars = append(a.sidecars, Sidecar{Path: r.text("path", i), SizeInBytes: size})
			return nil
		}
	case "checkpointMetadata":
		return func(int) error { a.v2 = true; return nil }
	}
	return nil
}

func (a *actions) addRow(r structReader, in *interner, stats *statsReader, i int) error {
	if !r.has("path", i) {
		return nil // some writers keep an all-null struct for rows of other actions
	}
	x := Add{Path: r.text("path", i), PartitionValues: in.values(r.nullableMap("partitionValues", i)), Stats: r.text("stats", i),
		Tags: r.nullableMap("tags", i), DeletionVector: dvOf(r, i), BaseRowID: r.intPtr("baseRowId", i),
		DefaultRowCommitVersion: r.intPtr("defaultRowCommitVersion", i), ClusteringProvider: r.text("clusteringProvider", i)}
	x.Size, _ = r.int("size", i)
	x.ModificationTime, _ = r.int("modificationTime", i)
	x.DataChange, _ = r.bool("dataChange", i)
	if x.Stats == "" {
		x.Stats = stats.json(i)
	}
	return a.add(&x)
}

func (a *actions) removeRow(r structReader, in *interner, i int) error {
	if !r.has("path", i) {
		return nil
	}
	x := Remove{Path: r.text("path", i), DeletionTimestamp: r.intPtr("deletionTimestamp", i),
		PartitionValues: in.values(r.nullableMap("partitionValues", i)), Size: r.intPtr("size", i), Stats: r.text("stats", i),
		Tags: r.nullableMap("tags", i), DeletionVector: dvOf(r, i), BaseRowID: r.intPtr("baseRowId", i),
		DefaultRowCommitVersion: r.intPtr("defaultRowCommitVersion", i)}
	x.DataChange, _ = r.bool("dataChange", i)
	if v, ok := r.bool("extendedFileMetadata", i); ok {
		x.ExtendedFileMetadata = &v
	}
	return a.remove(&x)
}

func dvOf(r structReader, i int) *DeletionVector {
	a := r.fields["deletionVector"]
	if a == nil || a.IsNull(i) {
		return nil
	}
	d, err := structOf(a)
	if err != nil || !d.has("storageType", i) {
		return nil
	}
	dv := &DeletionVector{StorageType: d.text("storageType", i), PathOrInlineDV: d.text("pathOrInlineDv", i), MaxRowIndex: d.intPtr("maxRowIndex", i)}
	if o, ok := d.int("offset", i); ok {
		off := int32(o)
		dv.Offset = &off
	}
	size, _ := d.int("sizeInBytes", i)
	dv.SizeInBytes = int32(size)
	dv.Cardinality, _ = d.int("cardinality", i)
	return dv
}

func (a *actions) txnRow(r structReader, i int) error {
	if !r.has("appId", i) {
		return nil
	}
	v, ok := r.int("version", i)
	if !ok {
		return errors.New("txn without version")
	}
	a.txns = append(a.txns, Txn{AppID: r.text("appId", i), Version: v, LastUpdated: r.intPtr("lastUpdated", i)})
	return nil
}

func (a *actions) metadataRow(r structReader, i int) error {
	if !r.has("id", i) && !r.has("schemaString", i) {
		return nil
	}
	if a.metadata != nil {
		return errors.New("second metaData action")
	}
	m := &Metadata{ID: r.text("id", i), Name: r.text("name", i), Description: r.text("description", i), SchemaString: r.text("schemaString", i),
		PartitionColumns: r.texts("partitionColumns", i), Configuration: r.plainMap("configuration", i), CreatedTime: r.intPtr("createdTime", i)}
	if f, err := structOf2(r.fields["format"]); err == nil {
		m.Format = Format{Provider: f.text("provider", i), Options: f.plainMap("options", i)}
	}
	m.normalize()
	a.metadata = m
	return nil
}

func structOf2(a arrow.Array) (structReader, error) {
	if a == nil {
		return structReader{}, errors.New("no such column")
	}
	return structOf(a)
}

func (a *actions) protocolRow(r structReader, i int) error {
	reader, ok1 := r.int("minReaderVersion", i)
	writer, ok2 := r.int("minWriterVersion", i)
	if !ok1 && !ok2 {
		return nil
	}
	if !ok1 || !ok2 {
		return errors.New("protocol without minReaderVersion or minWriterVersion")
	}
	if a.protocol != nil {
		return errors.New("second protocol action")
	}
	a.protocol = &Protocol{MinReaderVersion: int32(reader), MinWriterVersion: int32(writer),
		ReaderFeatures: r.texts("readerFeatures", i), WriterFeatures: r.texts("writerFeatures", i)}
	return nil
}

// checkpointSource reads a stored object where the parquet reader asks, so that a footer can be checked
// without loading the whole object.
type checkpointSource struct {
	read func(off, length int64) ([]byte, error)
	size int64
	pos  int64
}

var _ parquet.ReaderAtSeeker = (*checkpointSource)(nil)

func (c *checkpointSource) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), c.size-off)
	if n <= 0 {
		return 0, io.EOF
	}
	b, err := c.read(off, n)
	if err != nil {
		return 0, err
	}
	if copy(p, b) < len(p) {
		return len(b), io.EOF
	}
	return len(p), nil
}

func (c *checkpointSource) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.pos
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	c.pos = offset
	return offset, nil
}
