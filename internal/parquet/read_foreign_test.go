package parquet

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Files that others wrote are read as the library reads them: those of the corpus of Delta tables, and those of the
// folder LEDGERLAKE_PARQUET_FILES (test/services/parquetfiles.py fills one with every writer it finds).
func TestReadForeignFiles(t *testing.T) {
	rng := newRand(t)
	read, left, seen := 0, 0, 0
	each := func(name string, b []byte) {
		seen++
		t.Run(name, func(t *testing.T) {
			if fr, err := manifestOf(b); err != nil || fr.ParquetReader().NumRows() > 100_000 {
				t.Skipf("%v, or many rows", err)
			}
			if compareReads(t, rng, b) {
				read++
			} else {
				left++
			}
		})
	}
	corpus := os.Getenv("DELTA_CORPUS")
	if corpus == "" {
		corpus = filepath.Join("..", "..", "..", "shared", "delta-corpus")
	}
	archives, _ := filepath.Glob(filepath.Join(corpus, "*.tar.gz"))
	for _, a := range archives {
		eachInArchive(t, a, each)
	}
	if dir := os.Getenv("LEDGERLAKE_PARQUET_FILES"); dir != "" {
		files, _ := filepath.Glob(filepath.Join(dir, "*.parquet"))
		if len(files) == 0 {
			t.Fatalf("no files in %s", dir)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			each(filepath.Base(f), b)
			if twin, err := os.ReadFile(strings.TrimSuffix(f, ".parquet") + ".twin"); err == nil {
				t.Run(filepath.Base(f)+" and its twin", func(t *testing.T) { compareTwin(t, rng, b, twin, "number") })
			}
		}
	}
	if seen == 0 {
		t.Skip("no foreign files (set DELTA_CORPUS or LEDGERLAKE_PARQUET_FILES)")
	}
	t.Logf("%d files read, %d left to the library", read, left)
	if read < 9*left {
		t.Fatalf("%d files read, %d left to the library", read, left)
	}
}

// compareTwin compares a column of a file with that of another one that has the same rows and that the library can read.
func compareTwin(t *testing.T, rng *rand.Rand, b, twin []byte, name string) {
	t.Helper()
	fr, err := manifestOf(b)
	if err != nil {
		t.Fatal(err)
	}
	want := column0(t, readTable(t, twin).Column(readTable(t, twin).Schema().FieldIndices(name)[0]))
	field := slices.IndexFunc(fr.Manifest.Fields, func(f pqarrow.SchemaField) bool { return f.Field.Name == name })
	got, at, err := readGroup(rng, b, fr, 0, []int{field}, &dirty{}, false)
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for i, rb := range got {
		if part := array.NewSlice(want, at[i], at[i]+rb.NumRows()); !sameArray(part, rb.Column(0)) {
			t.Fatalf("row %d: twin %v, we %v", at[i], part, rb.Column(0))
		}
		rows += rb.NumRows()
		rb.Release()
	}
	if rows != int64(want.Len()) {
		t.Fatalf("%d rows, the twin has %d", rows, want.Len())
	}
}

func eachInArchive(t *testing.T, archive string, each func(string, []byte)) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || !strings.HasSuffix(h.Name, ".parquet") || h.Size > 2<<20 {
			continue
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		each(h.Name, b)
	}
}
