package segment

import (
	"bytes"
	"testing"

	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// TestKafkaSegment reads the beginning of a segment that an Apache Kafka 4.4.0 broker wrote (its producer
// compressed with snappy), and builds the broker's own index bytes from the log alone.
func TestKafkaSegment(t *testing.T) {
	const dir, base = "testdata/kafka-4.4.0", record.Offset(29183)
	if found, err := Verify(vfs.OS(), FileName(dir, base, LogSuffix)); err != nil || len(found) > 0 {
		t.Fatalf("verify: %v %v", found, err)
	}
	r, err := Open(vfs.OS(), dir, base)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := r.Read(base, 1<<20)
	if err != nil || int64(len(raw)) != r.Size() {
		t.Fatalf("read %d of %d bytes: %v", len(raw), r.Size(), err)
	}
	var it record.Iterator
	next := base
	for b := raw; len(b) > 0; {
		batch, err := record.ReadBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := it.Reset(batch); err != nil {
			t.Fatal(err)
		}
		for ; it.Next(); next++ {
			if rec := it.Record(); rec.Offset != next || len(rec.Value) != 200 {
				t.Fatalf("offset %d, %d bytes; want offset %d", rec.Offset, len(rec.Value), next)
			}
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if o, ok, err := r.OffsetForTime(batch.MaxTimestamp, batch.BaseOffset, nil); err != nil || !ok || o > batch.LastOffset() {
			t.Fatalf("time %d: offset %d, %v, %v", batch.MaxTimestamp, o, ok, err)
		}
		b = b[batch.Size():]
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	m := vfs.NewMem()
	f, err := m.Create(FileName("/", base, LogSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(raw, 0); err != nil {
		t.Fatal(err)
	}
	info, found, err := Recover(m, "/", base)
	if err != nil || found != nil || info.Next != next {
		t.Fatalf("recover: %+v %v %v, want the end %d", info, found, err, next)
	}
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		want, err := vfs.ReadFile(vfs.OS(), FileName(dir, base, suffix))
		if err != nil {
			t.Fatal(err)
		}
		// The time index of a closed segment ends with one entry more than the broker's had at that point.
		if got, err := vfs.ReadFile(m, FileName("/", base, suffix)); err != nil || len(want) == 0 || !bytes.HasPrefix(got, want) {
			t.Errorf("%s: %x, want %x, %v", suffix, got, want, err)
		}
	}
}
