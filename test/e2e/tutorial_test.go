package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// tutorialShim is `ledgerlake` for the commands of the tutorial: the usual ports may be taken here, and nobody reads
// what it says at a person's pace.
const tutorialShim = `#!/usr/bin/env bash
set -euo pipefail
case "$1" in
serve) set -- "$@" --kafka-listen 127.0.0.1:0 --http-listen '' --ready-file ready.json --flush-age 200ms ;;
produce) set -- "$@" --brokers "$(python3 -c 'import json; print(json.load(open("ready.json"))["kafka"])')" ;;
reprocess) case "$2" in *.yaml) set -- "$@" --flush-age 200ms ;; esac ;;
esac
exec %q "$@"
`

// tutorial is a page whose code blocks are followed in a folder, as somebody new would.
type tutorial struct {
	t       *testing.T
	dir     string
	started []*harness.Process
}

// The tutorial of docs/reprocess.md as it stands there: each file is saved, each command is run, in their order. In the end all
// that was sent is in the table once, by the better model, for DuckDB and for us, and the first job has made way (I3).
func TestTutorial(t *testing.T) {
	harness.Python(t)
	page, err := os.ReadFile(filepath.Join(harness.Top(t), "docs", "reprocess.md"))
	if err != nil {
		t.Fatal(err)
	}
	lesson, _, found := strings.Cut(string(page), "\n## What may replace what\n")
	if !found {
		t.Fatal("docs/reprocess.md: where the tutorial ends is not found")
	}
	x := &tutorial{t: t, dir: t.TempDir()}
	shim := filepath.Join(x.dir, "bin", "ledgerlake")
	if err := os.MkdirAll(filepath.Dir(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(shim, fmt.Appendf(nil, tutorialShim, harness.Binary(t)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(shim)+":"+os.Getenv("PATH"))
	files, commands := 0, 0
	for i, block := range strings.Split(lesson, "\n```") {
		if i%2 == 0 {
			continue
		}
		lang, text, _ := strings.Cut(block, "\n")
		if lang == "" {
			for line := range strings.Lines(text) {
				x.run(strings.TrimSpace(line))
				commands++
			}
			continue
		}
		first, _, _ := strings.Cut(text, "\n")
		if name, ok := strings.CutPrefix(first, "# "); ok {
			files++
			if err := os.WriteFile(filepath.Join(x.dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if files < 5 || commands < 12 || len(x.started) != 3 {
		t.Fatalf("%d files, %d commands and %d that go on: the page has changed its form", files, commands, len(x.started))
	}
	serve, old, better := x.started[0], x.started[1], x.started[2]
	<-old.Done() // as the page says; the test's own time limit is all that hurries it
	if !old.Said("filled by model-2") {
		t.Errorf("the first job ended with %s", old.Log())
	}
	classified := filepath.Join(x.dir, "classified")
	awaitRows(t, classified, 3600)
	better.Stop(t)
	serve.Stop(t)
	for who, rows := range map[string][]map[string]any{"DuckDB": foreignRows(t, "duckdb", classified), "ledgerlake": readTable(t, classified)} {
		seen := map[int64]bool{}
		for _, row := range rows {
			n := harness.Int(t, row, "n")
			want := "plain"
			if amount := n * 7919 % 1000; amount > 500 {
				want = "large"
			} else if amount < 50 {
				want = "small"
			}
			if seen[n] || row["class"] != want || row["user"] != fmt.Sprintf("user-%d", n%50) {
				t.Fatalf("%s: %v is there twice, or is not of class %s", who, row, want)
			}
			seen[n] = true
		}
		if len(seen) != 3600 || !seen[0] || !seen[3599] {
			t.Errorf("%s: %d rows, want 3600", who, len(seen))
		}
	}
	harness.Run(t, nil, "check", classified)
}

// run runs a command of the page. One that goes on is left to do so, once it is far enough for the next command, as a person sees it is.
func (x *tutorial) run(line string) {
	x.t.Helper()
	command, note, _ := strings.Cut(line, "    # ")
	if note != "goes on" {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", command)
		cmd.Dir = x.dir
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := harness.RunCommand(x.t, cmd); err != nil {
			x.t.Fatalf("%s: %v\n%s", command, err, out.String())
		}
		x.t.Logf("$ %s\n%s", command, out.String())
		return
	}
	x.t.Logf("$ %s &", command)
	p := harness.StartProgram(x.t, "bash", "-c", "cd \"$0\" && exec "+command, x.dir)
	x.started = append(x.started, p)
	ready := filepath.Join(x.dir, "classified", "_delta_log")
	if strings.Contains(command, " serve ") {
		ready = filepath.Join(x.dir, "ready.json")
	}
	harness.Eventually(x.t, harness.Patience, func() error {
		select {
		case <-p.Done():
			x.t.Fatalf("%s ended: %s", command, p.Log())
		default:
		}
		_, err := os.Stat(ready)
		return err
	})
}
