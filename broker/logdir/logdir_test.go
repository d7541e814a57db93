package logdir_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/logdir"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

var tp = record.TopicPartition{Topic: "a-b.c"}

// write leaves segments with the given batches in the folder of a partition.
func write(t *testing.T, dir string, partition int, segments ...[][]byte) {
	t.Helper()
	at := filepath.Join(dir, fmt.Sprintf("%s-%d", tp.Topic, partition))
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, batches := range segments {
		base := record.Offset(binary.BigEndian.Uint64(batches[0]))
		if err := os.WriteFile(segment.FileName(at, base, segment.LogSuffix), slices.Concat(batches...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// batch makes one of n records; with a producer it is part of its transaction.
func batch(t *testing.T, base record.Offset, n int, producer int64) []byte {
	t.Helper()
	b := record.NewBuilder(record.None)
	if producer >= 0 {
		b.ProducerID, b.ProducerEpoch, b.Transactional = producer, 0, true
	}
	for i := range n {
		b.Append(1000+int64(base)+int64(i), nil, fmt.Appendf(nil, "v%d", int(base)+i), nil)
	}
	raw, err := b.Build(base)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func marker(t *testing.T, base record.Offset, kind record.Marker, producer int64) []byte {
	t.Helper()
	raw, err := record.BuildMarker(base, kind, producer, 0, 0, 2000)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func note(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg logdir.Config) *logdir.Source {
	t.Helper()
	cfg.Topic = tp.Topic
	s, err := logdir.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// offsets reads a partition to its end, as a consumer of an isolation does, in small pieces.
func offsets(t *testing.T, s *logdir.Source, iso broker.Isolation) (out []record.Offset) {
	t.Helper()
	b, err := s.Bounds(t.Context(), tp)
	if err != nil {
		t.Fatal(err)
	}
	var filter record.AbortFilter
	var it record.Iterator
	for at := b.Start; ; {
		got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: at, MaxBytes: 1}}, broker.FetchOptions{Isolation: iso})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got[0].Err)
		}
		if len(got[0].Batches) == 0 {
			return out
		}
		filter.Reset(got[0].Aborted)
		for raw := got[0].Batches; len(raw) > 0; {
			rb, err := record.ReadBatch(raw)
			if err != nil {
				t.Fatal(err)
			}
			raw = raw[rb.Size():]
			if (iso == broker.ReadUncommitted || filter.Keep(rb)) && !rb.Control() {
				if err := it.Reset(rb); err != nil {
					t.Fatal(err)
				}
				for it.Next() {
					if o := it.Record().Offset; o >= at {
						out = append(out, o)
					}
				}
			}
			at = rb.LastOffset() + 1
		}
	}
}

// Segments with holes, transactions that commit, abort and stay open; the marks that the broker noted (I4).
func TestReadsWhatTheBrokerHad(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 0,
		[][]byte{batch(t, 5, 3, -1), batch(t, 8, 2, 1), batch(t, 12, 1, 2)},                                        // 10 and 11 were compacted away
		[][]byte{marker(t, 20, record.AbortMarker, 1), marker(t, 21, record.CommitMarker, 2), batch(t, 22, 2, -1)}, //
		[][]byte{batch(t, 24, 1, 3), batch(t, 25, 4, -1)},                                                          // 3 is open
	)
	if err := os.MkdirAll(filepath.Join(dir, tp.Topic+"-1.abc-delete"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, logdir.Config{Dir: dir})
	if b, _ := s.Bounds(t.Context(), tp); b != (broker.Bounds{Start: 5, Stable: 24, End: 29}) {
		t.Errorf("bounds %+v", b)
	}
	if parts, err := s.Partitions(t.Context(), tp.Topic); err != nil || !slices.Equal(parts, []int32{0}) {
		t.Errorf("partitions %v %v", parts, err)
	}
	if got, want := offsets(t, s, broker.ReadCommitted), []record.Offset{5, 6, 7, 12, 22, 23}; !slices.Equal(got, want) {
		t.Errorf("committed %v, want %v", got, want)
	}
	if got, want := offsets(t, s, broker.ReadUncommitted), []record.Offset{5, 6, 7, 8, 9, 12, 22, 23, 24, 25, 26, 27, 28}; !slices.Equal(got, want) {
		t.Errorf("all %v, want %v", got, want)
	}
	for ms, want := range map[int64]record.Offset{0: 5, 1007: 7, 1013: 20, 2500: 29} {
		if o, err := s.OffsetForTime(t.Context(), tp, ms); err != nil || o != want {
			t.Errorf("time %d: offset %d, want %d (%v)", ms, o, want, err)
		}
	}

	note(t, dir, "replication-offset-checkpoint", "0\n1\na-b.c 0 21\n")
	note(t, dir, "log-start-offset-checkpoint", "0\n1\na-b.c 0 7\n")
	note(t, filepath.Join(dir, "a-b.c-0"), "partition.metadata", "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw")
	s = open(t, logdir.Config{Dir: dir})
	if b, _ := s.Bounds(t.Context(), tp); b != (broker.Bounds{Start: 7, Stable: 12, End: 21}) { // the commit of 2 is behind the mark
		t.Errorf("bounds with marks %+v", b)
	}
	if got := s.Left()[0]; got != 8 {
		t.Errorf("%d offsets left out, want 8", got)
	}
	if id, err := s.TopicID(t.Context(), tp.Topic); err != nil || id[15] != 15 || id[1] != 1 {
		t.Errorf("topic id %v %v", id, err)
	}
	s = open(t, logdir.Config{Dir: dir, PastWatermark: true})
	if b, _ := s.Bounds(t.Context(), tp); b.End != 29 || len(s.Left()) != 0 {
		t.Errorf("past the watermark: %+v", b)
	}
}

// I8: damage is said, with file and position; only a cut at the very end is none.
func TestDamage(t *testing.T) {
	whole := func() [][][]byte {
		return [][][]byte{{batch(t, 0, 3, -1), batch(t, 3, 2, -1)}, {batch(t, 5, 3, -1), batch(t, 8, 2, -1)}}
	}
	for name, c := range map[string]struct {
		spoil func(segments [][][]byte) [][][]byte
		end   record.Offset
		err   string
	}{
		"whole":             {func(s [][][]byte) [][][]byte { return s }, 10, ""},
		"cut at the end":    {func(s [][][]byte) [][][]byte { s[1][1] = s[1][1][:70]; return s }, 8, ""},
		"cut in a header":   {func(s [][][]byte) [][][]byte { s[1][1] = s[1][1][:20]; return s }, 8, ""},
		"cut in the middle": {func(s [][][]byte) [][][]byte { s[0][1] = s[0][1][:70]; return s }, 0, "00000000000000000000.log"},
		"a flipped bit":     {func(s [][][]byte) [][][]byte { s[1][1][65] ^= 1; return s }, 0, "CRC"},
		"old format":        {func(s [][][]byte) [][][]byte { s[0][0][16] = 1; return s }, 0, "00000000000000000000.log"},
		"overlap":           {func(s [][][]byte) [][][]byte { s[0][1] = batch(t, 3, 4, -1); return s }, 0, "overlap"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, 0, c.spoil(whole())...)
			s, err := logdir.Open(t.Context(), logdir.Config{Dir: dir, Topic: tp.Topic})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := offsets(t, s, broker.ReadUncommitted); len(got) != int(c.end) || s.Close() != nil {
				t.Errorf("%v, want %d records", got, c.end)
			}
		})
	}
	dir := t.TempDir()
	write(t, dir, 0, whole()...)
	if _, err := logdir.Open(t.Context(), logdir.Config{Dir: dir, Topic: "other"}); !errors.Is(err, broker.ErrUnknownTopic) || !strings.Contains(err.Error(), tp.Topic) {
		t.Errorf("an unknown topic: %v", err)
	}
	for file, text := range map[string]string{"replication-offset-checkpoint": "1\n", "log-start-offset-checkpoint": "0\n1\nt x 5\n"} {
		dir := t.TempDir()
		write(t, dir, 0, whole()...)
		note(t, dir, file, text)
		if _, err := logdir.Open(t.Context(), logdir.Config{Dir: dir, Topic: tp.Topic}); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s with %q: %v", file, text, err)
		}
	}
	s := open(t, logdir.Config{Dir: dir, FS: vfs.OS()})
	got, err := s.Fetch(t.Context(), []broker.FetchRange{{TP: tp, From: 99, MaxBytes: 1}, {TP: record.TopicPartition{Topic: tp.Topic, Partition: 9}}}, broker.FetchOptions{})
	var oor *broker.OutOfRangeError
	if err != nil || !errors.As(got[0].Err, &oor) || !errors.Is(got[1].Err, broker.ErrUnknownTopic) {
		t.Errorf("beyond the end: %v; no such partition: %v (%v)", got[0].Err, got[1].Err, err)
	}
}

// What stands behind a transaction without an end is not read, and it is said how much that is, and whose (I4).
func TestTellsWhatAnOpenTransactionHides(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 0, [][]byte{batch(t, 0, 3, -1), batch(t, 3, 1, 7), batch(t, 4, 2, 9), batch(t, 6, 500, -1)}) // 7 and 9 never end
	write(t, dir, 1, [][]byte{batch(t, 0, 1, 7), marker(t, 1, record.CommitMarker, 7), batch(t, 2, 5, -1)})
	for mark, want := range map[int]map[int32]logdir.Hidden{
		506: {0: {Offsets: 503, First: 3, Producer: 7}},
		4:   {0: {Offsets: 1, First: 3, Producer: 7}},
		3:   {},
	} {
		note(t, dir, "replication-offset-checkpoint", fmt.Sprintf("0\n2\na-b.c 0 %d\na-b.c 1 7\n", mark))
		s := open(t, logdir.Config{Dir: dir})
		if got := s.Hidden(); !maps.Equal(got, want) {
			t.Errorf("up to %d: hidden %+v, want %+v", mark, got, want)
		}
		if got := offsets(t, s, broker.ReadCommitted); !slices.Equal(got, []record.Offset{0, 1, 2}) {
			t.Errorf("up to %d: committed %v", mark, got)
		}
		if got := int(s.Left()[0]); got != 506-mark {
			t.Errorf("up to %d: %d left", mark, got)
		}
	}
	note(t, dir, "log-start-offset-checkpoint", "0\n1\na-b.c 0 5\n") // retention has taken a part of what is open
	if got := open(t, logdir.Config{Dir: dir, PastWatermark: true}).Hidden()[0]; got != (logdir.Hidden{Offsets: 501, First: 3, Producer: 7}) {
		t.Errorf("behind the start: %+v", got)
	}
}
