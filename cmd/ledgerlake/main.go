// Command ledgerlake is one engine for a log and its lake: it serves a durable log over the Kafka protocol,
// writes it into Delta tables exactly once, and reads one stream out of both. One file a subcommand; the
// files hold flags, wiring and signals, the packages do the work.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build: -ldflags "-X main.version=...".
var version = "dev"

func main() {
	// The first signal asks for an orderly end; a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	root, prof := newRoot(), &profiles{}
	prof.attach(root)
	err := errors.Join(root.ExecuteContext(ctx), prof.stop())
	stop()
	if err != nil && !errors.Is(err, errReported) {
		fmt.Fprintf(os.Stderr, "ledgerlake: %v\n", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errReported makes the exit status 1 when the command has already said what is wrong.
var errReported = errors.New("already reported")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ledgerlake",
		Short: "One engine for a log and its lake",
		Long: `ledgerlake keeps a log and its lake as one stream: records arrive over the Kafka protocol (or from an
external Kafka), become rows of a Delta table exactly once, and are read back from any offset,
history from the table and the tail from the log.

Start here:
  ledgerlake demo                                  see it all work in half a minute
  ledgerlake serve --dir ./data --topic events:4   a durable log on 127.0.0.1:9092 and its tables
  ledgerlake read --dir ./data events              the stream from the first offset on

Every flag can also be set in the environment (--flush-age is LEDGERLAKE_FLUSH_AGE) or in a YAML file
named by --config (flush-age: 5s). A flag wins over the environment, which wins over the file.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			dropStartPages()
			return bindConfig(cmd)
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String("config", "", "YAML file with flag values, by flag name")
	root.PersistentFlags().String("log-level", "info", "debug, info, warn or error; logs go to standard error")
	root.PersistentFlags().String("log-format", "text", "text, or json for one object a line")
	root.AddCommand(newServe(), newUser(), newProduce(), newIngest(), newImport(), newRead(), newReprocess(), newInspect(), newCheck(), newOptimize(), newVacuum(), newRestore(), newCommitter(), newBench(), newDemo())
	return root
}
