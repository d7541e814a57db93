package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/record"
)

func newInspect() *cobra.Command {
	var (
		store  storeFlags
		secure kafkaSecurity
		asJSON bool
		limit  int
		log    bool
		travel travelFlags
	)
	cmd := &cobra.Command{
		Use:   "inspect TARGET",
		Short: "Show what is in a table, a served directory, or a segment or journal file",
		Long: `inspect shows what is in TARGET and changes nothing:
  a table (path or s3:// URI)   version, protocol, files, rows, bytes, positions, columns, newest commits
  a segment file NNN.log        each record batch: offsets, producer, codec, times
  a journal file NNN.wal        each frame: what was made durable before it was acknowledged
  a served directory            its topics with the bounds of the log and the lake end (when it is stopped)`,
		Example: `  ledgerlake inspect ./data/lake/events
  ledgerlake inspect ./data/lake/events --json
  ledgerlake inspect ./data/lake/events --history --limit 0
  ledgerlake inspect ./data/lake/events --version 12
  ledgerlake inspect ./data/log/data/events-0/00000000000000000000.log`,
		Args: named,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, out := args[0], cmd.OutOrStdout()
			switch {
			case strings.HasSuffix(target, ".log"):
				return inspectSegment(out, target, asJSON, limit)
			case strings.HasSuffix(target, ".wal"):
				return inspectJournal(cmd.Context(), out, target, asJSON, limit)
			case !strings.Contains(target, "://") && servedDir(target):
				return inspectServed(cmd, out, target, secure, asJSON)
			}
			st, err := store.open(cmd.Context(), target)
			if err != nil {
				return err
			}
			// What it holds is the list of files, which only grows, and loading it leaves little garbage: few collections cost a
			// quarter less processor time and a few MB.
			debug.SetGCPercent(200)
			l, err := deltalog.Open(cmd.Context(), st, deltalog.Config{})
			if err != nil {
				return tableError(target, err)
			}
			if log {
				err = inspectHistory(cmd.Context(), out, l, target, asJSON, limit)
			} else {
				err = inspectTable(cmd.Context(), out, l, &travel, target, asJSON, limit)
			}
			return errors.Join(err, l.Close())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "one JSON object (a line a commit with --history, a line a batch or frame for a file of the log)")
	f.BoolVar(&log, "history", false, "the commits of a table, newest first, with what they say about themselves")
	travel.register(f)
	f.IntVar(&limit, "limit", 20, "newest commits, or first batches or frames, to show")
	store.register(f)
	secure.register(f)
	return cmd
}

// tableReport is the stable form of `inspect TABLE --json`. Never change a field; add.
type tableReport struct {
	Version  int64 `json:"version"`
	Protocol struct {
		MinReader      int32    `json:"minReader"`
		MinWriter      int32    `json:"minWriter"`
		ReaderFeatures []string `json:"readerFeatures"`
		WriterFeatures []string `json:"writerFeatures"`
	} `json:"protocol"`
	Files            int              `json:"files"`
	Rows             *int64           `json:"rows"` // null: some file does not say
	Bytes            int64            `json:"bytes"`
	PartitionColumns []string         `json:"partitionColumns"`
	Txns             map[string]int64 `json:"txns"`
}

func reportTable(snap *deltalog.Snapshot) tableReport {
	var r tableReport
	p := snap.Protocol()
	r.Version = int64(snap.Version())
	r.Protocol.MinReader, r.Protocol.MinWriter = int32(p.MinReaderVersion), int32(p.MinWriterVersion)
	r.Protocol.ReaderFeatures = append([]string{}, p.ReaderFeatures...)
	r.Protocol.WriterFeatures = append([]string{}, p.WriterFeatures...)
	r.PartitionColumns = append([]string{}, snap.Metadata().PartitionColumns...)
	r.Txns = snap.Txns()
	if r.Txns == nil {
		r.Txns = map[string]int64{}
	}
	r.Files, r.Bytes = snap.NumFiles(), snap.SizeBytes()
	if rows, known := snap.NumRows(); known {
		r.Rows = &rows
	}
	return r
}

func inspectTable(ctx context.Context, out io.Writer, l *deltalog.Log, travel *travelFlags, target string, asJSON bool, limit int) error {
	snap, err := travel.snapshot(ctx, l)
	if err != nil {
		return fmt.Errorf("read table %s: %w", target, err)
	}
	r := reportTable(snap)
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	rows := "unknown (a file has no row count)"
	if r.Rows != nil {
		rows = fmt.Sprint(*r.Rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "table\t%s\n", target)
	fmt.Fprintf(w, "version\t%d, %s\n", r.Version, snap.Timestamp().UTC().Format(time.RFC3339))
	fmt.Fprintf(w, "protocol\treader %d, writer %d", r.Protocol.MinReader, r.Protocol.MinWriter)
	if f := append(r.Protocol.ReaderFeatures, r.Protocol.WriterFeatures...); len(f) > 0 {
		slices.Sort(f)
		fmt.Fprintf(w, ", features %s", strings.Join(slices.Compact(f), " "))
	}
	fmt.Fprintf(w, "\nfiles\t%d, %s\n", r.Files, byteCount(r.Bytes))
	fmt.Fprintf(w, "rows\t%s\n", rows)
	if len(r.PartitionColumns) > 0 {
		fmt.Fprintf(w, "partitioned by\t%s\n", strings.Join(r.PartitionColumns, ", "))
	}
	for _, app := range slices.Sorted(maps.Keys(r.Txns)) {
		fmt.Fprintf(w, "position\t%s: offsets up to %d are decided\n", app, r.Txns[app])
	}
	for _, f := range snap.Schema().Fields {
		null := ""
		if !f.Nullable {
			null = ", not null"
		}
		fmt.Fprintf(w, "column\t%s\t%s%s\n", f.Name, f.Type, null)
	}
	if travel.set() {
		return w.Flush() // its history is that of the newest version
	}
	history, err := l.History(ctx, limit)
	if err != nil {
		return fmt.Errorf("read history of %s: %w", target, err)
	}
	for _, h := range history {
		fmt.Fprintf(w, "commit %d\t%s\t%s\t%s\n", h.Version, h.Committed.Format(time.RFC3339Nano), h.Operation, h.EngineInfo)
	}
	return w.Flush()
}

// batchReport is one line of `inspect SEGMENT --json`.
type batchReport struct {
	Position      int64  `json:"position"` // byte offset in the file
	Base          int64  `json:"baseOffset"`
	Last          int64  `json:"lastOffset"`
	Records       int32  `json:"records"`
	Bytes         int    `json:"bytes"`
	Codec         string `json:"codec"`
	Epoch         int32  `json:"leaderEpoch"`
	ProducerID    int64  `json:"producerId"`
	ProducerEpoch int16  `json:"producerEpoch"`
	Sequence      int32  `json:"baseSequence"`
	Transactional bool   `json:"transactional"`
	Control       bool   `json:"control"`
	MaxTimestamp  int64  `json:"maxTimestamp"`
	CRC           string `json:"crc"` // ok, or what is wrong
}

func inspectSegment(out io.Writer, name string, asJSON bool, limit int) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	enc := json.NewEncoder(out)
	pos, batches := 0, 0
	for ; pos < len(raw) && (limit == 0 || batches < limit); batches++ {
		b, err := record.ReadBatch(raw[pos:])
		if err != nil {
			return fmt.Errorf("%s at byte %d: %w", name, pos, err)
		}
		r := batchReport{
			Position: int64(pos), Base: int64(b.BaseOffset), Last: int64(b.LastOffset()), Records: b.Count, Bytes: b.Size(),
			Codec: b.Codec().String(), Epoch: b.LeaderEpoch, ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch,
			Sequence: b.BaseSequence, Transactional: b.Transactional(), Control: b.Control(), MaxTimestamp: b.MaxTimestamp, CRC: "ok",
		}
		if err := b.VerifyCRC(); err != nil {
			r.CRC = err.Error()
		}
		if asJSON {
			if err := enc.Encode(r); err != nil {
				return err
			}
		} else if _, err := fmt.Fprintf(out, "@%-10d offsets %d..%d  %d records  %d bytes  %s  producer %d/%d seq %d  max time %s  crc %s%s\n",
			r.Position, r.Base, r.Last, r.Records, r.Bytes, r.Codec, r.ProducerID, r.ProducerEpoch, r.Sequence,
			time.UnixMilli(r.MaxTimestamp).UTC().Format(time.RFC3339Nano), r.CRC, flagWords(r)); err != nil {
			return err
		}
		pos += b.Size()
	}
	if !asJSON && pos < len(raw) {
		fmt.Fprintf(out, "... %d more bytes; --limit 0 shows all\n", len(raw)-pos)
	}
	return nil
}

func flagWords(r batchReport) string {
	s := ""
	if r.Transactional {
		s += "  transactional"
	}
	if r.Control {
		s += "  control"
	}
	return s
}

// topicReport is one element of `inspect DIR --json`.
type topicReport struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	LogStart  int64  `json:"logStart"`
	End       int64  `json:"end"`
	LakeEnd   int64  `json:"lakeEnd"`
	Lag       int64  `json:"lag"` // records in the log that the table lacks
}

func inspectServed(cmd *cobra.Command, out io.Writer, dir string, secure kafkaSecurity, asJSON bool) error {
	logger, err := newLogger(cmd)
	if err != nil {
		return err
	}
	reports, err := servedTopics(cmd.Context(), dir, secure, logger)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(out).Encode(reports)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "topic\tpartition\tlog start\tend\tlake end\tlag")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", r.Topic, r.Partition, r.LogStart, r.End, r.LakeEnd, r.Lag)
	}
	return w.Flush()
}

// topicNames lists the topics of a served directory from its folders' names.
func topicNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "log", "data"))
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		if i := strings.LastIndexByte(e.Name(), '-'); e.IsDir() && i > 0 && !broker.Internal(e.Name()) {
			names[e.Name()[:i]] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func byteCount(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}
