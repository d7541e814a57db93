package deltalog

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// corpusDir finds the tables that other implementations wrote.
func corpusDir(t testing.TB) string {
	dir := os.Getenv("DELTA_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "delta-corpus")
	}
	if _, err := os.Stat(filepath.Join(dir, "replay.tsv")); err != nil {
		t.Skipf("no corpus of foreign tables (set DELTA_CORPUS): %v", err)
	}
	return dir
}

// logOnly says which files of the archives the log needs.
func logOnly(name string) bool { return strings.Contains(name, "_delta_log/") }

// extract unpacks one archive's logs.
func extract(t testing.TB, archive, dst string) {
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
	tr := tar.NewReader(gz)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || !logOnly(h.Name) || !filepath.IsLocal(h.Name) {
			continue
		}
		p := filepath.Join(dst, h.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// openFolder loads a table's log into a store.
func openFolder(t testing.TB, root string) *mem.Store {
	t.Helper()
	store := mem.New()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if !logOnly(key) {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return store.Put(t.Context(), key, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

type expectation struct {
	version            Version
	files              int
	minReader, minWrit int32
}

func readReplay(t testing.TB, name string) map[string]expectation {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]expectation{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		if len(c) != 5 || c[0] == "table" {
			continue
		}
		n := make([]int, 4)
		for i := range n {
			if n[i], err = strconv.Atoi(c[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		out[c[0]] = expectation{Version(n[0]), n[1], int32(n[2]), int32(n[3])}
	}
	return out
}

// exceptions are the tables of replay.tsv whose expectation (a plain replay of the JSON commits, without any
// judgement) is not what a reader must do: the error that is right, or the number of files.
var exceptions = map[string]struct {
	err   string
	files int
}{
	"deltalog-invalid-protocol-version":              {err: "reader version 99"},
	"deltalog-state-reconstruction-without-metadata": {err: "no metaData action"},
	"data-reader-absolute-paths-escaped-chars":       {err: "no metaData action"},
	"table_d":                       {err: "catalogOwned"},
	"table_e":                       {err: "catalogOwned"},
	"table_f":                       {err: "catalogOwned"},
	"simple_table_features":         {err: "reader version 5"},
	"table-with-geo":                {err: "reader feature geospatial"},
	"canonicalized-paths-normal-b":  {files: 0}, // file:///x, file:/x and /x are one file
	"canonicalized-paths-special-a": {files: 0},
}

func tableName(name string) string { return path.Base(strings.TrimSuffix(name, "/delta")) }

// eachCorpusTable extracts the archives and visits every table of replay.tsv.
func eachCorpusTable(t *testing.T, visit func(t *testing.T, name string, store *mem.Store, want expectation)) {
	dir := corpusDir(t)
	root := t.TempDir()
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range archives {
		extract(t, a, root)
	}
	for name, w := range readReplay(t, filepath.Join(dir, "replay.tsv")) {
		t.Run(name, func(t *testing.T) {
			visit(t, name, openFolder(t, filepath.Join(root, filepath.FromSlash(name))), w)
		})
	}
}

func TestCorpus(t *testing.T) {
	eachCorpusTable(t, func(t *testing.T, name string, store *mem.Store, want expectation) {
		l, err := Open(t.Context(), store, Config{})
		e, special := exceptions[tableName(name)]
		if special && e.err != "" {
			if err == nil || !strings.Contains(err.Error(), e.err) {
				t.Fatalf("got %v, want an error with %q", err, e.err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if special {
			want.files = e.files
		}
		s := mustSnapshot(t, l)
		p := s.Protocol()
		got := expectation{s.Version(), s.NumFiles(), p.MinReaderVersion, p.MinWriterVersion}
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		checkCopies(t, store, s)
	})
}

// checkCopies compares the snapshot with that of a copy of the table which has nothing but our checkpoint, and
// with that of a copy replayed from JSON alone where the commits are all there.
func checkCopies(t *testing.T, store *mem.Store, s *Snapshot) {
	b, _, err := encodeCheckpoint(s, time.UnixMilli(0))
	if err != nil {
		t.Fatal(err)
	}
	only := mem.New()
	put(t, only, checkpointName(s.version), b)
	sameContent(t, "checkpointed copy", loadAll(t, only), s)
	plain := clone(t, store, func(k string) bool {
		return !strings.Contains(k, ".checkpoint.") && !strings.HasSuffix(k, ".compacted.json")
	})
	st, err := load(t.Context(), plain, -1, false)
	if err != nil {
		return // its commits were cleaned up
	}
	got := st.snapshot()
	if got.version != s.version || got.files.live != s.files.live {
		t.Errorf("JSON copy: version %d with %d files, want %d with %d", got.version, got.files.live, s.version, s.files.live)
	}
	if d := cmp.Diff(s.Txns(), got.Txns()); d != "" {
		t.Errorf("JSON copy: txns differ:\n%s", d)
	}
}

// TestCorpusUnlisted opens the tables that replay.tsv does not cover.
func TestCorpusUnlisted(t *testing.T) {
	dir := corpusDir(t)
	root := t.TempDir()
	for _, a := range []string{"delta-rs-broken", "delta-golden", "delta-rs"} {
		extract(t, filepath.Join(dir, a+".tar.gz"), root)
	}
	for name, want := range map[string]struct {
		err     string
		version Version
		files   int
	}{
		"delta-rs-broken/data_err_logs/table_b": {version: 13, files: 130},
		"delta-rs-broken/data_err_logs/table_c": {err: "commit 12 is missing"},
		"delta-rs-broken/data_err_logs/table_h": {err: "catalogOwned"},
		"delta-golden/versions-not-contiguous":  {err: "commit 1 is missing"},
		"delta-rs/checkpoint-cdf-table":         {version: 5, files: 13},
		"delta-rs/checkpoint_with_partitions":   {version: 2, files: 2},
		"delta-rs/checkpoints_vacuumed":         {version: 12, files: 12},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t.Context(), openFolder(t, filepath.Join(root, filepath.FromSlash(name))), -1, false)
			if want.err != "" {
				if err == nil || !strings.Contains(err.Error(), want.err) {
					t.Fatalf("got %v, want an error with %q", err, want.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if s.version != want.version || s.files.live != want.files {
				t.Fatalf("version %d with %d files, want %d with %d", s.version, s.files.live, want.version, want.files)
			}
		})
	}
}
