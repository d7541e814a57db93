package main

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// A command that reads a stopped directory does not know what was set of its brokers, and lets nothing expire (I6).
func TestReadingExpiresNothing(t *testing.T) {
	const records = 40
	dir, lg := t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil))
	log, err := local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "log"), FS: vfs.OS(), Durability: local.DurabilityNone, Logger: lg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.CreateTopic(t.Context(), "t", broker.TopicConfig{SegmentBytes: 1 << 10, RetentionBytes: 1}); err != nil {
		t.Fatal(err)
	}
	tp := record.TopicPartition{Topic: "t"}
	for i := range records {
		b := record.NewBuilder(record.None)
		b.Append(int64(i), nil, fmt.Appendf(nil, "%0200d", i), nil)
		raw, err := b.Build(0)
		if err == nil {
			_, err = log.Append(t.Context(), tp, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	f, s := &sourceFlags{log: lg}, &stream{}
	if err := f.openLog(t.Context(), s, dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if err := f.logs[dir].EnforceRetention(); err != nil {
		t.Fatal(err)
	}
	if b, err := s.source.Bounds(t.Context(), tp); err != nil || b.Start != 0 || b.End != records {
		t.Errorf("the log has [%d, %d), %v; want all %d", b.Start, b.End, err, records)
	}
}
