package local

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// session does a bit of everything until something fails, and gives what was acknowledged.
func session(t *testing.T, fsys vfs.FS, d Durability) (acked map[record.Offset]string, err error) {
	cfg := smallConfig(fsys)
	cfg.Durability = d
	acked = map[record.Offset]string{}
	l, err := Open(t.Context(), cfg)
	if err != nil {
		return acked, err
	}
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	_, cerr := l.CreateTopic(t.Context(), "t", broker.TopicConfig{})
	note(cerr)
	for i := 0; i < 12 && cerr == nil; i++ {
		v := fmt.Sprintf("%d %0900d", i, i)
		res, aerr := appendEither(t, l, tp("t", 0), batchOf(t, v))
		if aerr == nil {
			acked[res.Base] = v
		} else if !errors.Is(aerr, broker.ErrStorage) {
			t.Errorf("append: %v", aerr)
		}
		note(aerr)
		switch i {
		case 4:
			_, perr := l.CreateTopic(t.Context(), "u", broker.TopicConfig{})
			note(perr)
			_, _, perr = l.InitProducerID(t.Context())
			note(perr)
		case 6:
			note(l.Checkpoint())
		case 7:
			_, perr := appendEither(t, l, tp("t", 0), txnBatch(t, 1, 0, 0, "aborted"))
			note(perr)
			note(l.Checkpoint())
			if perr == nil {
				_, perr = l.AppendMarker(t.Context(), tp("t", 0), broker.TxnMarker{ProducerID: 1})
				note(perr)
				note(l.Checkpoint())
			}
		case 8:
			note(l.Hold(t.Context(), tp("t", 0), 3))
			note(l.DeleteTopic(t.Context(), "u"))
		}
	}
	if cerr == nil { // what was acknowledged can be read whatever failed
		got, _, rerr := readAll(l, tp("t", 0))
		for o, v := range acked {
			if got[o] != v {
				t.Errorf("offset %d of the failed log: %.20q, want %.20q (%v)", o, got[o], v, rerr)
			}
		}
	}
	note(l.Close())
	return acked, err
}

// TestInject fails each operation in turn, once or for ever, and looks whether the log says so, keeps what it
// acknowledged (I1), and opens again.
func TestInject(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, rule := range []vfs.Rule{
			{Err: syscall.EIO}, {Err: vfs.ErrNoSpace, Forever: true}, {Err: vfs.ErrNoSpace, Op: vfs.OpWrite, Short: 100, Forever: true},
			{Err: syscall.EIO, Op: vfs.OpSync, Pattern: "*.wal", Forever: true},
			{Err: syscall.EIO, Op: vfs.OpWrite, Pattern: "*.wal", Short: 100, Forever: true}, {Err: syscall.EIO, Op: vfs.OpWrite, Pattern: "*.log", Short: 100, Forever: true},
		} {
			t.Run(fmt.Sprintf("%s/%s%s/forever=%v", d, rule.Op, rule.Pattern, rule.Forever), func(t *testing.T) {
				failed := 0
				for k := 1; ; k++ {
					mem := vfs.NewMem()
					inject := vfs.NewInject(mem)
					rule.K = k
					inject.Fail(rule)
					acked, err := session(t, inject, d)
					if inject.Fired() == 0 {
						if err != nil {
							t.Fatalf("nothing was failed, yet: %v", err)
						}
						break
					}
					if err != nil {
						failed++
					}
					mode := vfs.KeepNothing
					if d == DurabilityNone {
						mode = vfs.KeepAll
					}
					mem = mem.Crash(nil, mode)
					l, err := Open(t.Context(), smallConfig(mem))
					if err != nil {
						t.Fatalf("operation %d: open: %v", k, err)
					}
					if len(acked) > 0 {
						seen, _, err := readCommitted(l, tp("t", 0), 0, 5000)
						if err != nil {
							t.Fatalf("operation %d: %v", k, err)
						}
						for o, v := range seen {
							if v == "aborted" {
								t.Fatalf("operation %d: offset %d of an aborted transaction is visible", k, o)
							}
						}
						got, _ := mustRead(t, l, tp("t", 0))
						for o, v := range acked {
							if got[o] != v { // I1
								t.Fatalf("operation %d: offset %d: %.20q, want %.20q", k, o, got[o], v)
							}
						}
					}
					mustClose(t, l)
				}
				if failed < 1 {
					t.Fatalf("only %d sessions failed", failed)
				}
			})
		}
	}
}

// TestPoisoned shows that after a failed fsync nothing is acknowledged, although the next would not fail.
func TestPoisoned(t *testing.T) {
	mem := vfs.NewMem()
	inject := vfs.NewInject(mem)
	l := mustOpen(t, smallConfig(inject))
	mustCreate(t, l, "t", broker.TopicConfig{})
	mustAppend(t, l, tp("t", 0), batchOf(t, "good"))
	inject.Fail(vfs.Rule{Op: vfs.OpSync, Pattern: "*.wal", K: 1, Err: syscall.EIO})
	for range 3 {
		if _, err := appendEither(t, l, tp("t", 0), batchOf(t, "lost")); !errors.Is(err, broker.ErrStorage) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("append after the failed sync: %v", err)
		}
	}
	if got, b := mustRead(t, l, tp("t", 0)); len(got) != 1 || b.End != 1 {
		t.Fatalf("%v %v", got, b)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, smallConfig(mem.Crash(nil, vfs.KeepNothing)))
	if res := mustAppend(t, l, tp("t", 0), batchOf(t, "next")); res.Base != 1 {
		t.Fatalf("base %d", res.Base)
	}
	mustClose(t, l)
}
