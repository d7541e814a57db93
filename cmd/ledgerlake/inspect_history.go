package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/reader"
)

// travelFlags choose an older version of a table.
type travelFlags struct {
	version   int64
	timestamp string
}

func (f *travelFlags) register(fs *pflag.FlagSet) {
	fs.Int64Var(&f.version, "version", -1, "the table as of this version")
	fs.StringVar(&f.timestamp, "timestamp", "", "the table as of this time, like 2026-01-31T12:00:00Z")
}

func (f *travelFlags) set() bool { return f.version >= 0 || f.timestamp != "" }

// snapshot gives the chosen version, or the newest.
func (f *travelFlags) snapshot(ctx context.Context, l *deltalog.Log) (*deltalog.Snapshot, error) {
	switch {
	case f.version >= 0 && f.timestamp != "":
		return nil, fmt.Errorf("--version and --timestamp exclude each other")
	case f.version >= 0:
		return l.SnapshotAt(ctx, deltalog.Version(f.version))
	case f.timestamp != "":
		t, ok := reader.ParseTime(f.timestamp)
		if !ok {
			return nil, fmt.Errorf("--timestamp %q: want a time like 2026-01-31T12:00:00Z", f.timestamp)
		}
		return l.SnapshotAtTime(ctx, t)
	}
	return l.Snapshot(ctx)
}

// commitReport is one line of `inspect TABLE --history --json`. Never change a field; add.
type commitReport struct {
	Version    int64                      `json:"version"`
	Timestamp  time.Time                  `json:"timestamp"` // what --timestamp goes by
	Operation  string                     `json:"operation"`
	Parameters map[string]json.RawMessage `json:"operationParameters,omitempty"`
	Metrics    map[string]string          `json:"operationMetrics,omitempty"`
	Engine     string                     `json:"engineInfo,omitempty"`
	Read       *int64                     `json:"readVersion,omitempty"`
	Blind      *bool                      `json:"isBlindAppend,omitempty"`
	User       string                     `json:"userMetadata,omitempty"`
	TxnID      string                     `json:"txnId,omitempty"`
}

func inspectHistory(ctx context.Context, out io.Writer, l *deltalog.Log, target string, asJSON bool, limit int) error {
	history, err := l.History(ctx, limit)
	if err != nil {
		return fmt.Errorf("read history of %s: %w", target, err)
	}
	if asJSON {
		enc := json.NewEncoder(out)
		for _, h := range history {
			if err := enc.Encode(commitReport{Version: int64(h.Version), Timestamp: h.Committed, Operation: h.Operation,
				Parameters: h.OperationParameters, Metrics: h.OperationMetrics, Engine: h.EngineInfo, Read: h.ReadVersion,
				Blind: h.IsBlindAppend, User: h.UserMetadata, TxnID: h.TxnID}); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "version\ttime\toperation\twhat\tby")
	for _, h := range history {
		operation := h.Operation
		if operation == "" {
			operation = "(no commitInfo)"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", h.Version, h.Committed.Format("2006-01-02 15:04:05.000Z"), operation, describeCommit(h), h.EngineInfo)
	}
	return w.Flush()
}

// describeCommit gives metrics, else parameters, as short words.
func describeCommit(h deltalog.CommitInfo) string {
	var words []string
	for _, k := range slices.Sorted(maps.Keys(h.OperationMetrics)) {
		words = append(words, k+"="+h.OperationMetrics[k])
	}
	if len(words) == 0 {
		for _, k := range slices.Sorted(maps.Keys(h.OperationParameters)) {
			v := string(h.OperationParameters[k])
			var text string
			if json.Unmarshal(h.OperationParameters[k], &text) == nil {
				v = strings.Trim(text, `"`)
			}
			if len(v) > 60 {
				v = v[:57] + "..."
			}
			words = append(words, k+"="+v)
		}
	}
	return strings.Join(words, " ")
}
