package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// segmentFiles gives the .log files of a topic in a served directory, oldest first.
func segmentFiles(t *testing.T, dir, topic string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "log"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".log" && strings.Contains(filepath.Dir(path), topic) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files
}

func javaTool(t *testing.T, stdin string, class string, args ...string) string {
	t.Helper()
	out, _ := harness.KafkaTool(t, strings.NewReader(stdin), class, args...)
	return out
}

// Kafka's own Java tools make a topic, produce, consume in a group, and ask for offsets.
func TestJavaTools(t *testing.T) {
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering")
	at := []string{"--bootstrap-server", s.Addr}
	javaTool(t, "", "TopicCommand", append(at, "--create", "--topic", "java", "--partitions", "1")...)
	if out := javaTool(t, "", "TopicCommand", append(at, "--describe", "--topic", "java")...); !strings.Contains(out, "PartitionCount: 1") {
		t.Errorf("TopicCommand describes %q", out)
	}

	const n = 500
	var in, want strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "k%d\tvalue %d\n", i, i)
		fmt.Fprintf(&want, "Offset:%d\tk%d\tvalue %d\n", i, i, i)
	}
	javaTool(t, in.String(), "ConsoleProducer", append(at, "--topic", "java", "--reader-property", "parse.key=true", "--compression-codec", "zstd")...)
	got := javaTool(t, "", "consumer.ConsoleConsumer", append(at, "--topic", "java", "--from-beginning",
		"--group", "java-group", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000",
		"--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")...)
	if got != want.String() {
		t.Errorf("the Java consumer printed %d bytes that differ from the %d sent; it begins %.200q", len(got), want.Len(), got)
	}
	if out := javaTool(t, "", "GetOffsetShell", append(at, "--topic", "java")...); strings.TrimSpace(out) != fmt.Sprintf("java:0:%d", n) {
		t.Errorf("GetOffsetShell printed %q, want java:0:%d", out, n)
	}
}

// Kafka's own dump tool reads our segment and index files: the format is theirs, byte for byte.
func TestKafkaDumpsOurSegments(t *testing.T) {
	seed := seedtest.New(t)
	const n = 3000
	s := harness.Serve(t, t.TempDir(), "", "--no-tiering", "--topic", "dumped:1", "--segment-bytes", "32768")
	for i := 0; i < n; i += 500 { // a segment ends between batches, so send several
		produce(t, s.Addr, "dumped", seed, i, i+500)
	}
	s.Stop(t)

	files := segmentFiles(t, s.Dir, "dumped")
	if len(files) < 2 {
		t.Fatalf("%d segment files, want several: %v", len(files), files)
	}
	offset := regexp.MustCompile(`(?m)^\| offset: (\d+) .* payload: (.*)$`)
	next := 0
	for _, file := range files {
		out, complaints := harness.KafkaTool(t, nil, "DumpLogSegments", "--files", file, "--print-data-log", "--deep-iteration")
		// The tool expects each file to begin at offset 0, Kafka's own too.
		begins := fmt.Sprintf("Non-consecutive offsets in %s\n  -1 is followed by %d\n", file, next)
		if strings.Contains(out, "isvalid: false") || complaints != "" && complaints != begins {
			t.Errorf("the dump tool complains about %s: %.2000s", filepath.Base(file), complaints)
		}
		for _, m := range offset.FindAllStringSubmatch(out, -1) {
			if m[1] != fmt.Sprint(next) || !strings.Contains(m[2], fmt.Sprintf(`"n":%d`, next)) {
				t.Fatalf("%s: record %d is dumped as offset %s, payload %s", filepath.Base(file), next, m[1], m[2])
			}
			next++
		}
		for _, index := range []string{".index", ".timeindex"} {
			// The tool says what is wrong with an index on its standard error, and ends well all the same.
			if _, complaints := harness.KafkaTool(t, nil, "DumpLogSegments",
				"--files", strings.TrimSuffix(file, ".log")+index, "--verify-index-only"); complaints != "" {
				t.Errorf("the dump tool finds fault with the %s of %s: %.2000s", index, filepath.Base(file), complaints)
			}
		}
	}
	if next != n {
		t.Errorf("the dump tool found %d records, %d were sent", next, n)
	}
}
