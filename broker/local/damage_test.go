package local

import (
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

func patch(t *testing.T, m *vfs.Mem, name string, pos int64, b []byte) {
	t.Helper()
	f, err := m.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// crashedLog is a log that was killed with three journal files to replay.
func crashedLog(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	cfg := smallConfig(mem)
	cfg.CheckpointBytes = 1 << 30
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 4)
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	fill(t, l, tp("t", 0), 20)
	out := mem.Crash(nil, vfs.KeepNothing)
	mustClose(t, l)
	return out
}

// TestJournalDamage tells a torn end, which is normal, from damage, which is not (I1, I8).
func TestJournalDamage(t *testing.T) {
	const first, second, last = "/log/journal/00000000000000000002.wal", "/log/journal/00000000000000000003.wal", "/log/journal/00000000000000000004.wal"
	frame := int64(frameHeaderSize + len(batchOf(t, strings.Repeat("0", 900))))
	zeros := make([]byte, 512)
	for _, c := range []struct {
		name   string
		damage func(m *vfs.Mem)
		file   string // of the error; empty: it opens
		end    record.Offset
	}{
		{"whole", func(*vfs.Mem) {}, "", 24},
		{"torn end", func(m *vfs.Mem) { patch(t, m, last, fileHeaderSize+5*frame+100, zeros) }, "", 23},
		{"durable frame of the last file", func(m *vfs.Mem) { patch(t, m, last, fileHeaderSize+frame+100, zeros) }, last, 0},
		{"zeros in the last file", func(m *vfs.Mem) { patch(t, m, last, fileHeaderSize+frame, zeros) }, last, 0},
		{"frame of another file", func(m *vfs.Mem) { patch(t, m, first, fileHeaderSize+7*frame, []byte{1}) }, first, 0},
		{"last frame of another file", func(m *vfs.Mem) { patch(t, m, second, fileHeaderSize+6*frame+200, []byte{1}) }, second, 0},
		{"no file", func(m *vfs.Mem) { _ = m.Remove(second) }, second, 0},
		{"foreign", func(m *vfs.Mem) { patch(t, m, first, 0, []byte("PAR1PAR1")) }, first, 0},
		{"newer", func(m *vfs.Mem) { patch(t, m, last, 8, []byte{0, 0, 0, 3}) }, last, 0},
		{"empty header", func(m *vfs.Mem) { _ = m.Remove(last); _, _ = m.Create(last) }, "", 18},
		{"checkpoint", func(m *vfs.Mem) { patch(t, m, "/log/checkpoint", 60, []byte{0}) }, "/log/checkpoint", 0},
		{"no checkpoint", func(m *vfs.Mem) { _ = m.Remove("/log/checkpoint") }, "/log/checkpoint", 0},
		{"short segment", func(m *vfs.Mem) {
			f, err := m.Create("/log/data/t-0/00000000000000000003.log")
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
		}, "/log/data/t-0/00000000000000000003.log", 0},
		{"no segment", func(m *vfs.Mem) { _ = m.Remove("/log/data/t-0/00000000000000000000.log") }, "/log/data/t-0/00000000000000000000.log", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := crashedLog(t)
			c.damage(mem)
			checkAndOpen(t, mem, c.file, c.end)
		})
	}
}

// checkAndOpen sees to it that both a check and Open find damage in a file; or, when that is empty, that neither does and
// the log of partition 0 ends at end.
func checkAndOpen(t *testing.T, fsys vfs.FS, file string, end record.Offset) {
	t.Helper()
	found, err := CheckDir(t.Context(), fsys, "/log")
	if err != nil || (len(found) > 0) != (file != "") {
		t.Errorf("check: %v %v", found, err)
	}
	l, err := Open(t.Context(), smallConfig(fsys))
	if file != "" {
		var damage *segment.DamageError
		if !errors.As(err, &damage) || damage.File != file {
			t.Fatalf("open: %v", err)
		}
		if len(found) > 0 && found[0].File != file {
			t.Errorf("check: %v", found)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, b := mustRead(t, l, tp("t", 0)); b.End != end {
		t.Errorf("%v, want an end of %d", b, end)
	}
	mustClose(t, l)
}

func TestDumpJournal(t *testing.T) {
	mem := crashedLog(t)
	next := record.Offset(4)
	for _, name := range []string{"/log/journal/00000000000000000002.wal", "/log/journal/00000000000000000003.wal", "/log/journal/00000000000000000004.wal"} {
		for f, err := range DumpJournal(t.Context(), mem, name) {
			if err != nil || f.Kind != FrameBatch || f.Offset != next {
				t.Fatalf("%+v %v, want offset %d", f, err, next)
			}
			next++
		}
	}
	if next != 24 {
		t.Fatalf("%d frames", next)
	}
}

// TestTail keeps whole batches of a log without a journal, and cuts the torn one (I8).
func TestTail(t *testing.T) {
	mem := vfs.NewMem()
	cfg := smallConfig(mem)
	cfg.Durability = DurabilityNone
	l := mustOpen(t, cfg)
	mustCreate(t, l, "t", broker.TopicConfig{})
	fill(t, l, tp("t", 0), 8)
	crashed := mem.Crash(nil, vfs.KeepAll)
	mustClose(t, l)
	patch(t, crashed, "/log/data/t-0/00000000000000000003.log", 1500, []byte{7})
	l = mustOpen(t, smallConfig(crashed)) // with a journal now
	if _, b := mustRead(t, l, tp("t", 0)); b.End != 4 {
		t.Fatalf("%v", b)
	}
	mustAppend(t, l, tp("t", 0), batchOf(t, "x"))
	mustClose(t, l)
}
