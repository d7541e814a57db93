package local

import (
	"bytes"
	"embed"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

//go:embed testdata
var golden embed.FS

// goldenLog is a directory as version 1 of the journal's format left it: three batches and a hold.
func goldenLog(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	for name, in := range map[string]string{"checkpoint": "v1.checkpoint", "topics.json": "v1.topics.json",
		"journal/00000000000000000001.wal": "v1.wal"} {
		b, err := golden.ReadFile("testdata/" + in)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(mem.MkdirAll("/log/journal"), mem.MkdirAll("/log/data")); err != nil {
			t.Fatal(err)
		}
		writeFile(t, mem, "/log/"+name, b)
	}
	return mem
}

func writeFile(t *testing.T, m *vfs.Mem, name string, b []byte) {
	t.Helper()
	f, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestJournalV1 reads a journal that was written before frames had a salt.
func TestJournalV1(t *testing.T) {
	mem := goldenLog(t)
	if found, err := CheckDir(t.Context(), mem, "/log"); err != nil || len(found) > 0 {
		t.Fatalf("check: %v %v", found, err)
	}
	l := mustOpen(t, smallConfig(mem))
	got, _ := mustRead(t, l, tp("t", 0))
	if diff := cmp.Diff(map[record.Offset]string{0: "value 0", 1: "value 1", 2: "value 2"}, got); diff != "" {
		t.Fatal(diff)
	}
	p, err := l.partition(tp("t", 0))
	if err != nil || p.hold != 2 || !p.held {
		t.Fatalf("hold %d %v %v", p.hold, p.held, err)
	}
	mustClose(t, l)
}

// forged is a frame as somebody makes it who knows everything but the salt, and says that all before is durable.
func forged(key frameKey, synced int64) []byte {
	f := Frame{Kind: FrameHold, Synced: synced}
	return appendFrame(nil, &f, &key)
}

// TestForgedFrame sends records that hold frames. In a torn write they must not make recovery refuse (I8).
func TestForgedFrame(t *testing.T) {
	for _, forge := range []func(header []byte, pos int64) []byte{
		func([]byte, int64) []byte { return forged(newFrameKey(1, 1, [16]byte{}), 1<<40) }, // as version 1 has them
		func([]byte, int64) []byte { return forged(newFrameKey(1, 2, [16]byte{}), 1<<40) },
		func(h []byte, _ int64) []byte { // knows the salt, and claims what is not written yet
			return forged(newFrameKey(1, 2, [16]byte(h[36:52])), 1<<40)
		},
		func(h []byte, _ int64) []byte { // knows the magic
			return bytes.Repeat(append([]byte(nil), h[36:40]...), 100)
		},
	} {
		mem := vfs.NewMem()
		cfg := smallConfig(mem)
		cfg.JournalBytes = 1 << 20
		l := mustOpen(t, cfg)
		mustCreate(t, l, "t", broker.TopicConfig{})
		mustAppend(t, l, tp("t", 0), batchOf(t, "good"))
		const name = "/log/journal/00000000000000000001.wal"
		before, err := vfs.ReadFile(mem, name)
		if err != nil {
			t.Fatal(err)
		}
		pos := int64(fileHeaderSize + frameHeaderSize + len(batchOf(t, "good")))
		mustAppend(t, l, tp("t", 0), batchOf(t, "x"+string(forge(before[:fileHeaderSize], pos))))
		mem = mem.Crash(nil, vfs.KeepNothing)
		mustClose(t, l)
		patch(t, mem, name, pos, make([]byte, frameHeaderSize)) // as if the first page of the write was torn
		cfg.FS = mem
		l = mustOpen(t, cfg)
		if got, _ := mustRead(t, l, tp("t", 0)); len(got) != 1 {
			t.Fatalf("%d records", len(got))
		}
		mustClose(t, l)
	}
}

// TestManyCandidates bounds the search in a file of version 1 that is full of forged frames (I8).
func TestManyCandidates(t *testing.T) {
	mem := goldenLog(t)
	b, err := golden.ReadFile("testdata/v1.wal")
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, frameHeaderSize)
	binary.BigEndian.PutUint32(junk, frameMagicV1)
	binary.BigEndian.PutUint32(junk[4:], 1<<20)
	b = append(b, bytes.Repeat(junk, 5<<20/frameHeaderSize)...)
	writeFile(t, mem, "/log/journal/00000000000000000001.wal", b)
	var damage *segment.DamageError
	if _, err := Open(t.Context(), smallConfig(mem)); !errors.As(err, &damage) {
		t.Fatalf("open: %v", err)
	}
}

// TestSalt gives each file its own.
func TestSalt(t *testing.T) {
	a, err := newSalt()
	b, err2 := newSalt()
	if err = errors.Join(err, err2); err != nil || a == b || newFrameKey(1, 2, a).seed == newFrameKey(1, 2, b).seed {
		t.Fatalf("%x %x %v", a, b, err)
	}
}
