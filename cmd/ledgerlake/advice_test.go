package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// What a newcomer does wrong is answered with what to do instead.
func TestMistakesAreAnswered(t *testing.T) {
	dir := t.TempDir()
	served, file, empty := filepath.Join(dir, "served"), filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	for _, d := range []string{filepath.Join(served, "log"), empty} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	in := strings.NewReplacer("SERVED", served, "FILE", file, "EMPTY", empty, "NONE", filepath.Join(dir, "none"), "TAKEN", taken.Addr().String())
	for args, want := range map[string]string{
		"serve --dri x":               "unknown flag: --dri: did you mean --dir? `ledgerlake serve --help` shows all",
		"restore EMPTY --version 3":   "did you mean --to-version?",
		"read x --xyzzy":              "unknown flag: --xyzzy: `ledgerlake read --help` shows all",
		"serve --flush-age 10":        `--flush-age "10": want a time with its unit`,
		"read x --partition a":        `--partition "a": want numbers`,
		"read x --limit many":         `--limit "many": want a number`,
		"read EMPTY --from":           "`ledgerlake read --help` shows how flags are given",
		"read NONE":                   "NONE does not exist: want a table, DIR/TOPIC",
		"read SERVED":                 "SERVED is a served directory and no table: its tables are in SERVED/lake, and `ledgerlake read SERVED/TOPIC`",
		"read EMPTY":                  "not a Delta table",
		"read FILE":                   "is a file, not a folder",
		"inspect NONE":                "NONE does not exist",
		"check NONE":                  "NONE does not exist",
		"optimize NONE":               "NONE does not exist",
		"vacuum SERVED":               "is a served directory",
		"restore NONE --to-version 1": "NONE does not exist",
		"ingest --topic a --table x --filter n>1":                                                         "in backticks",
		"serve --dir SERVED/s --http-listen= --kafka-listen TAKEN":                                        "--kafka-listen chooses another address",
		"serve --dir SERVED/s --http-listen= --kafka-listen 9092":                                         "--kafka-listen chooses another address, HOST:PORT",
		"serve --dir SERVED/s --kafka-listen 127.0.0.1:0 --http-listen TAKEN":                             "--http-listen chooses another address",
		"serve --dir SERVED/s --kafka-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --flight-listen TAKEN": "--flight-listen chooses another address",
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(in.Replace(args)))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), in.Replace(want)) {
			t.Errorf("%s: %v\nwant %s", args, err, want)
		}
	}
}

// What the environment and a file say of a flag is answered as what the command line says.
func TestMistakesOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("flush-age: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LEDGERLAKE_FLUSH_ROWS", "x")
	for args, want := range map[string]string{
		"serve --config " + file: `config file key flush-age: --flush-age "3": want a time with its unit`,
		"serve":                  `environment LEDGERLAKE_FLUSH_ROWS: --flush-rows "x": want a number`,
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

// A directory that is served already says so to who wants to serve or read it.
func TestLockedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	held, err := local.Open(t.Context(), local.Config{Dir: dir, FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, args := range [][]string{{"serve", "--dir", filepath.Dir(dir)}, {"read", "events", "--dir", filepath.Dir(dir)}} {
		root := newRoot()
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "a `ledgerlake serve` runs in "+filepath.Dir(dir)) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// A topic of which no table has anything yet is no fault of its directory.
func TestCheckBeforeTiering(t *testing.T) {
	dir := t.TempDir()
	log, err := local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "log"), FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.CreateTopic(t.Context(), "jobs", broker.TopicConfig{Partitions: 1})
	if err := errors.Join(err, log.Close()); err != nil {
		t.Fatal(err)
	}
	root := newRoot()
	root.SetArgs([]string{"check", dir})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
}
