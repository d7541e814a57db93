package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/ledgerlake/ledgerlake/internal/parquet"
	"github.com/ledgerlake/ledgerlake/internal/parquet/parquettest"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// writeFiles writes random tables as Parquet files of ours, and beside each what went in.
func writeFiles(t *testing.T, rng *rand.Rand, n int) []string {
	t.Helper()
	var files []string
	for i := range n {
		s := parquettest.Schema(rng)
		if i == 0 {
			var fields []arrow.Field
			for j, dt := range parquettest.LeafTypes {
				fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%02d", j), Type: dt, Nullable: true})
			}
			s = arrow.NewSchema(fields, nil)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.parquet", i))
		writeFile(t, rng, path, s, parquettest.Batches(rng, s, []int{20, 400, 1500}[i%3]))
		files = append(files, path)
	}
	return files
}

func writeFile(t *testing.T, rng *rand.Rand, path string, s *arrow.Schema, batches []arrow.RecordBatch) {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	out, err := os.Create(path)
	fail(err)
	stream, err := os.Create(path + ".ipc")
	fail(err)
	codec := []parquet.Codec{parquet.Snappy, parquet.Zstd, parquet.Uncompressed}[rng.IntN(3)]
	w, err := parquet.NewWriter(out, s, parquet.Options{Codec: codec})
	fail(err)
	iw := ipc.NewWriter(stream, ipc.WithSchema(s))
	for _, rb := range batches {
		fail(w.Write(rb))
		fail(iw.Write(rb))
		if rng.IntN(2) == 0 {
			fail(w.EndRowGroup())
		}
	}
	fail(w.Close())
	fail(iw.Close())
	fail(out.Close())
	fail(stream.Close())
}

// Other engines read every value of our Parquet files: all types, nested, with nulls, in every encoding, over
// row groups, and with the pages' checksums verified.
func TestOthersReadOurParquet(t *testing.T) {
	harness.Python(t)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	files := writeFiles(t, rng, 12)
	want := harness.DecodeRows(t, harness.RunPython(t, nil, "parquetfiles.py", append([]string{"ipc"}, files...)...))
	for _, engine := range []string{"pyarrow", "duckdb", "polars"} {
		sameRows(t, engine, want, harness.DecodeRows(t, harness.RunPython(t, nil, "parquetfiles.py", append([]string{engine}, files...)...)))
	}
}

// Spark reads them too.
func TestSparkReadsOurParquet(t *testing.T) {
	harness.SparkPython(t)
	rng := rand.New(rand.NewPCG(seedtest.New(t), 0))
	files := writeFiles(t, rng, 6)
	want := harness.DecodeRows(t, harness.RunPython(t, nil, "parquetfiles.py", append([]string{"ipc"}, files...)...))
	sameRows(t, "Spark", want, harness.DecodeRows(t, harness.RunSpark(t, "spark.py", append([]string{"parquet"}, files...)...)))
}

func sameRows(t *testing.T, engine string, want, got []map[string]any) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d rows, want %d", engine, len(got), len(want))
		return
	}
	for i := range want {
		if reflect.DeepEqual(want[i], got[i]) {
			continue
		}
		w, g := want[i]["row"].(map[string]any), got[i]["row"].(map[string]any)
		for name := range w {
			if !reflect.DeepEqual(w[name], g[name]) {
				t.Errorf("%s: row %d of %v, column %s: %v, want %v", engine, i, want[i]["file"], name, g[name], w[name])
				return
			}
		}
		t.Errorf("%s: row %d of %v differs", engine, i, want[i]["file"])
		return
	}
}
