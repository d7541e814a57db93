package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/segment"
)

// On a disk that has no room for another journal file retention still removes what has expired, which makes the room that
// appends wait for. The checkpoints that it writes meanwhile are good ones (I1).
func TestRetentionOnAFullDisk(t *testing.T) {
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		seedtest.Each(t, 30, func(t *testing.T, seed uint64) {
			rng := rand.New(rand.NewPCG(seed, 11))
			mem := vfs.NewMem()
			inject := vfs.NewInject(mem)
			cfg := smallConfig(inject)
			cfg.Durability = d
			l := mustOpen(t, cfg)
			mustCreate(t, l, "t", broker.TopicConfig{RetentionBytes: 4000})
			mustCreate(t, l, "held", broker.TopicConfig{Tiered: true})
			acked, end := map[record.Offset]string{}, record.Offset(0)
			put := func() error {
				v := fmt.Sprintf("%d %0900d", end, end)
				res, err := appendEither(t, l, tp("t", 0), batchOf(t, v))
				if err == nil {
					acked[res.Base], end = v, res.Base+1
					_, err = appendEither(t, l, tp("held", 0), batchOf(t, "x"))
				}
				return err
			}
			for range 10 + rng.IntN(20) {
				if err := put(); err != nil {
					t.Fatal(err)
				}
			}
			inject.Fail(vfs.Rule{Op: vfs.OpPreallocate, K: 1, Forever: true, Err: syscall.ENOSPC})
			if seed%4 > 0 { // no spare can be used either
				inject.Fail(vfs.Rule{Op: vfs.OpOpen, Pattern: "*.wal", K: 1, Forever: true, Err: syscall.EMFILE})
			}
			for range rng.IntN(12) {
				if err := put(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if err := l.Hold(t.Context(), tp("held", 0), record.Offset(rng.IntN(10))); err != nil {
				t.Fatal(err)
			}
			if err := l.EnforceRetention(); err != nil {
				t.Fatalf("retention: %v", err)
			}
			if bases, err := segment.List(mem, "/log/data/t-0"); err != nil || len(bases) > 3 {
				t.Fatalf("segments %v, %v", bases, err)
			}
			for range rng.IntN(4) { // into what is left of the old file
				if err := put(); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if rng.IntN(2) == 0 {
				inject.Heal()
				for range 1 + rng.IntN(5) {
					if err := put(); err != nil {
						t.Fatalf("there is room again: %v", err)
					}
				}
			}
			mode := vfs.KeepNothing
			if d == DurabilityNone {
				mode = vfs.KeepAll
			}
			after := mem.Crash(rng, mode)
			mustClose(t, l)
			if found, err := CheckDir(t.Context(), after, "/log"); err != nil || len(found) > 0 {
				t.Fatalf("check: %v %v", found, err)
			}
			l = mustOpen(t, smallConfig(after))
			got, b := mustRead(t, l, tp("t", 0))
			if b.End != end {
				t.Fatalf("the end is %d, was %d", b.End, end)
			}
			for o, v := range got {
				if acked[o] != v { // I1
					t.Fatalf("offset %d: %.20q, want %.20q", o, v, acked[o])
				}
			}
			mustClose(t, l)
		})
	}
}
