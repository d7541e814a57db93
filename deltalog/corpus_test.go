package deltalog

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/objstore"
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

// folder is a read-only store over a directory: enough to read tables, and nothing in between.
type folder struct {
	*fakeStore
	root string
}

func openFolder(t testing.TB, root string) *folder {
	t.Helper()
	f := &folder{fakeStore: newFake(), root: root}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if !logOnly(key) {
			return nil
		}
		b, err := os.ReadFile(p)
		f.objects[key], f.times[key] = b, info.ModTime()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
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

func TestCorpus(t *testing.T) {
	dir := corpusDir(t)
	want := readReplay(t, filepath.Join(dir, "replay.tsv"))
	root := t.TempDir()
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	for _, a := range archives {
		extract(t, a, root)
	}
	good, refused := 0, 0
	for name, w := range want {
		p := filepath.Join(root, filepath.FromSlash(name))
		if _, err := os.Stat(filepath.Join(p, "delta", "_delta_log")); err == nil {
			p = filepath.Join(p, "delta")
		}
		s, err := load(t.Context(), openFolder(t, p), -1)
		if err != nil {
			fmt.Println("ERR", name, err)
			refused++
			continue
		}
		if s.version != w.version || s.files.live != w.files || s.protocol.MinReaderVersion != w.minReader || s.protocol.MinWriterVersion != w.minWrit {
			fmt.Println("DIFF", name, s.version, s.files.live, s.protocol, w)
			continue
		}
		good++
	}
	fmt.Println(len(want), good, refused)
}

var _ = context.Background
var _ iter.Seq[int]
var _ objstore.Store
var _ = errors.New
