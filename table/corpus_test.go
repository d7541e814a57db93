package table

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// corpus gives the tables of the archive that has the rows Spark read next to each table, by name: the files of
// the table and those of the expected rows.
func corpus(t *testing.T) map[string]map[string][]byte { return corpusArchive(t, "kernel-rs-golden") }

func corpusArchive(t *testing.T, archive string) map[string]map[string][]byte {
	dir := os.Getenv("DELTA_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "delta-corpus")
	}
	f, err := os.Open(filepath.Join(dir, archive+".tar.gz"))
	if err != nil {
		t.Skipf("no corpus of foreign tables (set DELTA_CORPUS): %v", err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string][]byte{}
	tr := tar.NewReader(gz)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(h.Name, "/", 3)
		if h.Typeflag != tar.TypeReg || len(parts) < 3 || h.Size > 16<<20 {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if out[parts[1]] == nil {
			out[parts[1]] = map[string][]byte{}
		}
		out[parts[1]][parts[2]] = b
	}
}

// notComparable are tables whose expected rows are not what the protocol says.
var notComparable = map[string]string{
	"data-reader-partition-values": "the expected times are shifted by a zone",
}

// Tables that Spark wrote: the rows that Spark read from them, each as often, in no order.
func TestCorpusRows(t *testing.T) {
	compared := 0
	for name, files := range corpus(t) {
		var expected [][]byte
		for path, b := range files {
			if strings.HasPrefix(path, "expected/") && strings.HasSuffix(path, ".parquet") && !strings.HasPrefix(filepath.Base(path), ".") {
				expected = append(expected, b)
			}
		}
		if len(expected) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if why := notComparable[name]; why != "" {
				t.Skip(why)
			}
			store := mem.New()
			for path, b := range files {
				if rest, ok := strings.CutPrefix(path, "delta/"); ok {
					if err := store.Put(t.Context(), rest, b); err != nil {
						t.Skipf("cannot hold it: %v", err)
					}
				}
			}
			compareWithSpark(t, store, expected)
			compared++
		})
	}
	if compared < 30 {
		t.Fatalf("only %d tables compared", compared)
	}
}

func compareWithSpark(t *testing.T, store objstore.Store, expected [][]byte) {
	tb, err := Open(t.Context(), store, Config{})
	var unsupported *deltalog.UnsupportedError
	if errors.As(err, &unsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	snap := tb.current()
	schema, err := tb.Schema(snap)
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for rb, err := range tb.Scan(t.Context(), snap, ScanOptions{}) {
		if errors.As(err, &unsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		got = appendText(got, rb)
	}
	for _, b := range expected {
		want = append(want, readExpected(t, b, schema)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("row %d of %d\nwant %s\ngot  %s", i, len(got), want[i], got[i])
		}
	}
}

func readExpected(t *testing.T, raw []byte, schema *arrow.Schema) (out []string) {
	pq, err := file.NewParquetReader(bytesReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	fr, err := pqarrow.NewFileReader(pq, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	tbl, err := fr.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	tr := array.NewTableReader(tbl, 1<<20)
	for tr.Next() {
		rb := tr.RecordBatch()
		cols := make([]arrow.Array, schema.NumFields())
		for i, f := range schema.Fields() {
			at := rb.Schema().FieldIndices(f.Name)
			if len(at) != 1 {
				t.Fatalf("expected rows have no column %s", f.Name)
			}
			if cols[i], err = adapt(rb.Column(at[0]), f.Type, memory.DefaultAllocator); err != nil {
				t.Fatal(err)
			}
		}
		out = appendText(out, array.NewRecordBatch(schema, cols, rb.NumRows()))
	}
	return out
}

// appendText gives each row as text.
func appendText(out []string, rb arrow.RecordBatch) []string {
	for i := range int(rb.NumRows()) {
		var s strings.Builder
		for c := range int(rb.NumCols()) {
			fmt.Fprintf(&s, "%s | ", rb.Column(c).ValueStr(i))
		}
		out = append(out, s.String())
	}
	return out
}

// unreadable are tables whose rows cannot be read, with a part of the reason.
var unreadable = map[string]string{
	"delta-spark/table-with-dv-special-char":   "outside of the table's folder", // a template, see TestCorpusDeletionVectors
	"delta-kernel-java/spark-shredded-variant": "variant",
}

// tablesIn finds the tables of an archive, which can lie at any depth.
func tablesIn(files map[string]map[string][]byte) map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for top, members := range files {
		for path := range members {
			if i := strings.Index("/"+path, "/_delta_log/"); i >= 0 && out[top+"/"+path[:i]] == nil {
				root := path[:i]
				one := map[string][]byte{}
				for p, b := range members {
					if rest, ok := strings.CutPrefix(p, root); ok {
						one[strings.Replace(rest, "test%dv%prefix-deletion_vector", "deletion_vector", 1)] = b
					}
				}
				out[top+"/"+root] = one
			}
		}
	}
	return out
}

// Every table of every archive that opens can be read: as many rows as its log says. I4, I8
func TestCorpusReads(t *testing.T) {
	read := 0
	for _, archive := range []string{"delta-golden", "delta-spark", "delta-kernel-java", "delta-rs", "kernel-rs", "kernel-rs-golden", "duckdb"} {
		for name, files := range tablesIn(corpusArchive(t, archive)) {
			name = archive + "/" + strings.TrimSuffix(strings.TrimSuffix(name, "/"), "/delta")
			store := mem.New()
			for path, b := range files {
				if err := store.Put(t.Context(), path, b); err != nil {
					t.Logf("%s: %v", name, err)
				}
			}
			got, want, err := countRows(t, store)
			var u *deltalog.UnsupportedError
			switch why := unreadable[name]; {
			case err != nil && why != "" && strings.Contains(err.Error(), why):
			case errors.Is(err, errNotOpen), errors.Is(err, objstore.ErrNotFound), errors.As(err, &u):
				t.Logf("%s: %v", name, err) // deltalog's tests say which must open; some archives lack files
			case err != nil && strings.Contains(err.Error(), "file too small (size=1)"): // a log alone, files are dummies
			case err != nil:
				t.Errorf("%s: %v", name, err)
			case want >= 0 && got != want:
				t.Errorf("%s: %d rows, want %d", name, got, want)
			case why != "":
				t.Errorf("%s can be read", name)
			default:
				read++
			}
		}
	}
	if t.Logf("%d tables read", read); read < 150 {
		t.Fatalf("only %d tables read", read)
	}
}

var errNotOpen = errors.New("does not open")

// countRows scans a table; want is -1 when the log does not say how many rows there are.
func countRows(t *testing.T, store objstore.Store) (got, want int64, err error) {
	tb, err := Open(t.Context(), store, Config{})
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", errNotOpen, err)
	}
	defer tb.Close()
	known := true
	for f := range tb.current().Files() {
		n, ok := f.NumRecords()
		known = known && ok
		if want += n; f.DeletionVector != nil {
			want -= f.DeletionVector.Cardinality
		}
	}
	if !known {
		want = -1
	}
	for rb, err := range tb.Scan(t.Context(), tb.current(), ScanOptions{}) {
		if err != nil {
			return got, want, err
		}
		got += rb.NumRows()
		rb.Release()
	}
	return got, want, nil
}
