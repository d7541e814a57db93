package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A wrong number of arguments is told by their names, with an example, by each command that takes any.
func TestArgumentsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"reprocess":                  "reprocess: JOB.yaml is missing; for example: ledgerlake reprocess job.yaml",
		"reprocess a.yaml b.yaml":    `reprocess takes JOB.yaml, and "b.yaml" is one too many; for example: ledgerlake reprocess job.yaml`,
		"reprocess swap":             "reprocess swap: JOB.yaml is missing; for example: ledgerlake reprocess swap job.yaml",
		"import":                     "import: DIR and TABLE are missing; for example: ledgerlake import ",
		"import d":                   "import: TABLE is missing; for example: ledgerlake import ",
		"read":                       "read: SOURCE is missing; for example: ledgerlake read ",
		"committer add node4":        "committer add: ADDR is missing; for example: ledgerlake committer add node4 10.0.0.4:7070",
		"committer transfer a b":     `committer transfer takes ID, and "b" is one too many`,
		"ingest topic table another": `ingest takes TOPIC and TABLE, and "another" is one too many`,
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(args))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", args, err, want)
		}
	}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if names, _, _ := argumentsOf(cmd.Use); len(names) > 0 && !cmd.Hidden && !strings.HasPrefix(exampleOf(cmd), "ledgerlake ") {
			t.Errorf("%s has no example that begins with ledgerlake: %q", cmd.CommandPath(), cmd.Example)
		}
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(newRoot())
}
