package deltalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// dated is a store whose commits have the given file times, in ms.
type dated struct {
	objstore.Store
	times map[Version]int64
}

func (d dated) List(ctx context.Context, opts objstore.ListOptions) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for info, err := range d.Store.List(ctx, opts) {
			if f, ok := parseName(info.Key[min(len(logDir), len(info.Key)):]); ok && f.kind == kindCommit {
				info.ModTime = time.UnixMilli(d.times[f.version])
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// datedLog has one added file a version, at the given times.
func datedLog(t *testing.T, times ...int64) (*mem.Store, *Log) {
	t.Helper()
	store := mem.New()
	at := map[Version]int64{}
	for i, ms := range times {
		lines := addLine(fmt.Sprint(i))
		if i == 0 {
			lines = protocolLine + metadataLine + lines
		}
		putLog(t, store, map[Version]string{Version(i): lines})
		at[Version(i)] = ms
	}
	l, err := Open(t.Context(), dated{store, at}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return store, l
}

func TestVersionAt(t *testing.T) {
	// Version 2's file is older than that of version 1, and 3 has the same time: adjusted to 1000 2000 2001 2002 9000.
	_, l := datedLog(t, 1000, 2000, 1500, 1500, 9000)
	for _, c := range []struct {
		at   int64
		want Version
		err  error
	}{
		{999, -1, ErrTimestampTooEarly}, {1000, 0, nil}, {1999, 0, nil}, {2000, 1, nil}, {2001, 2, nil}, {2002, 3, nil},
		{8999, 3, nil}, {9000, 4, nil}, {9001, -1, ErrTimestampTooLate},
	} {
		v, err := l.VersionAt(t.Context(), time.UnixMilli(c.at))
		if v != c.want || !errors.Is(err, c.err) {
			t.Errorf("at %d: version %d, %v; want %d, %v", c.at, v, err, c.want, c.err)
		}
	}
	s, err := l.SnapshotAtTime(t.Context(), time.UnixMilli(2001))
	if err != nil || s.Version() != 2 || paths(s) != "0 1 2" {
		t.Fatalf("%v, %v", s, err)
	}
	h, err := l.History(t.Context(), 3)
	if err != nil || len(h) != 3 || h[2].Version != 2 || h[2].Committed.UnixMilli() != 2001 {
		t.Fatalf("%+v, %v", h, err)
	}
}

// TestVersionAtAfterCleanup asks for what the log cannot give any more: the error says what it can.
func TestVersionAtAfterCleanup(t *testing.T) {
	store, l := datedLog(t, 1000, 2000, 3000, 4000, 5000)
	s, err := l.SnapshotAt(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Checkpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	remove(t, store, commitName(0))
	remove(t, store, commitName(1))
	if v, err := l.Earliest(t.Context()); v != 2 || err != nil {
		t.Fatal(v, err)
	}
	_, err = l.SnapshotAt(t.Context(), 1)
	if !errors.Is(err, ErrVersionNotFound) {
		t.Fatal(err)
	}
	wantError(t, err, "the log goes from 2 to 4")
	_, err = l.SnapshotAtTime(t.Context(), time.UnixMilli(2500))
	if !errors.Is(err, ErrTimestampTooEarly) {
		t.Fatal(err)
	}
	wantError(t, err, "the oldest is version 2 of 1970-01-01T00:00:03.000Z")
	if s, err := l.SnapshotAtTime(t.Context(), time.UnixMilli(3000)); err != nil || paths(s) != "0 1 2" {
		t.Fatal(err)
	}
}

// TestVersionAtInCommit has in-commit timestamps from version 2 on; the files' times say something else.
func TestVersionAtInCommit(t *testing.T) {
	store := mem.New()
	info := func(ms int64) string { return fmt.Sprintf(`{"commitInfo":{"inCommitTimestamp":%d}}`+"\n", ms) }
	enabled := `{"metaData":{"id":"m","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":[],` +
		`"configuration":{"delta.enableInCommitTimestamps":"true","delta.inCommitTimestampEnablementVersion":"2","delta.inCommitTimestampEnablementTimestamp":"5000"}}}` + "\n"
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine, 1: addLine("1"), 2: info(5000) + enabled, 3: info(6000) + addLine("3"), 4: info(7000) + addLine("4")})
	l, err := Open(t.Context(), dated{store, map[Version]int64{0: 1000, 1: 2000, 2: 90_000, 3: 80_000, 4: 70_000}}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for at, want := range map[int64]Version{1000: 0, 1999: 0, 2000: 1, 4999: 1, 5000: 2, 5999: 2, 6000: 3, 7000: 4} {
		if v, err := l.VersionAt(t.Context(), time.UnixMilli(at)); v != want || err != nil {
			t.Errorf("at %d: version %d, %v; want %d", at, v, err, want)
		}
	}
	if _, err := l.VersionAt(t.Context(), time.UnixMilli(7001)); !errors.Is(err, ErrTimestampTooLate) {
		t.Error(err)
	}
	if h, err := l.History(t.Context(), 0); err != nil || h[0].Committed.UnixMilli() != 7000 || h[3].Committed.UnixMilli() != 2000 {
		t.Errorf("%+v, %v", h, err)
	}
	put(t, store, commitName(4), []byte(addLine("4")))
	var corrupt *CorruptError
	if _, err := l.VersionAt(t.Context(), time.UnixMilli(7000)); !errors.As(err, &corrupt) {
		t.Errorf("a commit without its timestamp: %v", err)
	}
}

// TestHistoryReadsHeads finds commitInfo at the start, at the end and nowhere, without parsing the rest.
func TestHistoryReadsHeads(t *testing.T) {
	store := mem.New()
	big := ""
	for i := range 2000 {
		big += addLine(fmt.Sprintf("file-%d", i))
	}
	info := `{"commitInfo":{"operation":"%s"}}` + "\n"
	putLog(t, store, map[Version]string{0: protocolLine + metadataLine, 1: fmt.Sprintf(info, "first") + big, 2: big + fmt.Sprintf(info, "last")})
	l, err := Open(t.Context(), store, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := l.History(t.Context(), 0)
	if err != nil || len(h) != 3 || h[0].Operation != "last" || h[1].Operation != "first" || h[2].Operation != "" {
		t.Fatalf("%+v, %v", h, err)
	}
}
