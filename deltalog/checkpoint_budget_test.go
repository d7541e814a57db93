package deltalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// textCheckpoint has rows of adds with a path and the leaves given, below add, all of the same text.
func textCheckpoint(t testing.TB, rows int, text string, codec compress.Compression, dictionary bool, leaves ...string) []byte {
	t.Helper()
	node := func(name string) schema.Node {
		n, err := schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Optional, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	group := func(name string, repetition parquet.Repetition, fields ...schema.Node) *schema.GroupNode {
		g, err := schema.NewGroupNode(name, repetition, fields, -1)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	fields := []schema.Node{node("path")}
	var bounds []schema.Node
	depth := []int16{2}
	for _, l := range leaves {
		if name, ok := strings.CutPrefix(l, "stats_parsed.minValues."); ok {
			bounds = append(bounds, node(name))
			depth = append(depth, 4)
		} else {
			fields = append(fields, node(l))
			depth = append(depth, 2)
		}
	}
	if bounds != nil {
		fields = append(fields, group("stats_parsed", parquet.Repetitions.Optional, group("minValues", parquet.Repetitions.Optional, bounds...)))
	}
	root := group("schema", parquet.Repetitions.Required, group("add", parquet.Repetitions.Optional, fields...))
	var buf bytes.Buffer
	w := file.NewParquetWriter(&buf, root, file.WithWriterProps(parquet.NewWriterProperties(parquet.WithCompression(codec), parquet.WithDictionaryDefault(dictionary),
		parquet.WithDictionaryPageSizeLimit(64<<20), parquet.WithStats(false), parquet.WithCompressionLevel(1))))
	rg, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	for column, d := range depth {
		values, def := make([]parquet.ByteArray, rows), make([]int16, rows)
		for i := range values {
			values[i], def[i] = parquet.ByteArray(text), d
			if column == 0 {
				values[i] = parquet.ByteArray(fmt.Sprint("f", i))
			}
		}
		c, err := rg.NextColumn()
		if err == nil {
			_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, def, nil)
		}
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(rg.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func countFiles(b []byte) (files int, text int64, err error) {
	err = parseParquet(&checkpointSource{size: int64(len(b)), window: b}, false, func(a *actions) error {
		files += len(a.adds)
		text += a.textBytes()
		return nil
	})
	return files, text, err
}

// The pages of all columns of a checkpoint have one limit together, whoever decodes them: many columns of long values that
// compress to nothing are refused, a few are read (I8).
func TestColumnsUnfoldWithinOneLimit(t *testing.T) {
	long := strings.Repeat("a", 16<<20)
	for _, c := range []struct {
		codec   compress.Compression
		columns int
		fits    bool
	}{{compress.Codecs.Zstd, 4, true}, {compress.Codecs.Zstd, 10, false}, {compress.Codecs.Brotli, 18, false}} { // the library reads the last one
		var leaves []string
		for i := range c.columns {
			leaves = append(leaves, fmt.Sprintf("stats_parsed.minValues.c%d", i))
		}
		b := textCheckpoint(t, 1, long, c.codec, false, leaves...)
		files, text, err := countFiles(b)
		if c.fits && (err != nil || files != 1 || text < int64(c.columns*len(long))) {
			t.Errorf("%s, %d columns: %d files, %d bytes of text, %v", c.codec, c.columns, files, text, err)
		}
		if !c.fits && !errors.Is(err, errUnfolds) {
			t.Errorf("%s: %d columns of %d MiB in a file of %d bytes: %v", c.codec, c.columns, len(long)>>20, len(b), err)
		}
	}
}

// nothing is an allocator that counts on nobody to use its memory.
type nothing struct{ memory.Allocator }

func (nothing) Allocate(int) []byte { return nil }

// A table of many columns has bounds of each in its checkpoints, which its readers hold a page of at a time; what a footer with
// any number of columns makes of that has an end (I8).
func TestManyColumnsUnfold(t *testing.T) {
	for _, c := range []struct {
		leaves int
		size   int64
		fits   bool
	}{{1200, 120 << 20, true}, {1200, 1 << 20, true}, {100_000, 1 << 20, false}, {10, 1 << 20, true}} {
		u := &unfolding{Allocator: nothing{}}
		u.begin(c.size, c.leaves)
		fits := func() (fits bool) {
			defer func() { fits = recover() == nil }()
			for range c.leaves { // measured: 511 MiB for 1,200 columns of 32,768 rows
				u.Allocate(440 << 10)
			}
			return
		}()
		if fits != c.fits {
			t.Errorf("%+v: fits %v", c, fits)
		}
	}
}

// A text that stands in a dictionary once and in any number of files is bounded by what the file has (I8).
func TestTextOfFilesIsBounded(t *testing.T) {
	b := textCheckpoint(t, 300, strings.Repeat("a", 1<<20), compress.Codecs.Zstd, true, "stats")
	if files, text, err := countFiles(b); !errors.Is(err, errUnfolds) || text > mostText {
		t.Errorf("%d files with %d MiB of text in a file of %d bytes: %v", files, text>>20, len(b), err)
	}
	b = textCheckpoint(t, 200, strings.Repeat("a", 1<<20), compress.Codecs.Zstd, true, "stats")
	if files, _, err := countFiles(b); err != nil || files != 200 {
		t.Errorf("%d files, %v", files, err)
	}
}

// Fields of an action that no reader knows are not decoded, whatever they hold, nor is a second column of a name (I8).
func TestUnknownColumnsAreNotDecoded(t *testing.T) {
	f, err := file.NewParquetReader(bytes.NewReader(textCheckpoint(t, 1, "x", compress.Codecs.Snappy, false, "deletionVector", "tags", "stats", "stats", "unknown")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, c := range chooseColumns(f, false) {
		for _, l := range c.leaves {
			names = append(names, c.name+"."+l.name)
		}
	}
	if got := strings.Join(names, " "); got != "add.path add.stats" {
		t.Errorf("decoded %s", got)
	}
}

// Lists of features are found in each form that Parquet has for lists: one that is passed over would be no features at all.
func TestListsOfEachForm(t *testing.T) {
	text := func(name string, r parquet.Repetition) schema.Node {
		return schema.MustPrimitive(schema.NewPrimitiveNode(name, r, parquet.Types.ByteArray, -1, -1))
	}
	group := func(name string, r parquet.Repetition, kid schema.Node) schema.Node {
		return schema.MustGroup(schema.NewGroupNode(name, r, []schema.Node{kid}, -1))
	}
	optional, repeated := parquet.Repetitions.Optional, parquet.Repetitions.Repeated
	for form, list := range map[string]schema.Node{
		"three levels": group("readerFeatures", optional, group("list", repeated, text("element", optional))),
		"two levels":   group("readerFeatures", optional, text("array", repeated)),
		"one level":    text("readerFeatures", repeated),
	} {
		s := schema.NewSchema(schema.MustGroup(schema.NewGroupNode("spark_schema", parquet.Repetitions.Required, []schema.Node{group("protocol", optional, list)}, -1)))
		l, ok := newLeaf(0, s.Column(0), nil)
		if !ok || l.name != "readerFeatures#element" || !strings.Contains(wantedFields("protocol"), " "+l.name+" ") {
			t.Errorf("%s: leaf %q", form, l.name)
		}
	}
}
