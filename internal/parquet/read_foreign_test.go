package parquet

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
