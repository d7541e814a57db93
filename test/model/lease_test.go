package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/ledgerlake/ledgerlake/maintenance"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/reader"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
)

// smallFiles is a world whose table has a file for each ten of n records of partition 0, and whose log has none of them.
func smallFiles(t *testing.T, n int) *world {
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	for at := 0; at < n; at += 10 {
		b := record.NewBuilder(record.LZ4)
		for i := at; i < at+10; i++ {
			b.Append(int64(1000+i), []byte("k"), fmt.Appendf(nil, `{"n":%d}`, i), nil)
		}
		raw, err := b.Build(0)
		if err == nil {
			_, err = w.log.Append(t.Context(), tp(0), raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.tierWith(0)
	}
	w.cut(record.Offset(n))
	return w
}

// clearTable puts all rows into a new file and deletes the old ones at once, as far as leases let it.
func (w *world) clearTable() maintenance.VacuumReport {
	w.t.Helper()
	if _, err := maintenance.Optimize(w.t.Context(), w.table, maintenance.OptimizeOptions{}); err != nil {
		w.t.Fatal(err)
	}
	// The clock is ahead, so that files that were written a moment ago are old.
	report, err := maintenance.Vacuum(w.t.Context(), w.table, maintenance.VacuumOptions{Zero: true, Force: true,
		OrphanAge: time.Hour, Clock: func() time.Time { return time.Now().Add(2 * time.Second) }})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// A vacuum with no retention at all runs while a reader rests in the middle of the table. The reader's lease keeps its
// files, so it reads on from its own version; without one it finds its place in the newest. Either way each record
// comes once and in order (I4, I6).
func TestReaderLease(t *testing.T) {
	for name, leased := range map[string]bool{"leased": true, "without a lease": false} {
		t.Run(name, func(t *testing.T) {
			w := smallFiles(t, 300)
			quiet := quickLog()
			quiet.CheckpointInterval = -1 // a checkpoint in the background, and the cleanup behind it, are no reader
			tb, err := table.Open(t.Context(), w.store, table.Config{Topic: topic, Log: quiet})
			if err = errors.Join(err, w.table.Close()); err != nil {
				t.Fatal(err)
			}
			w.table = tb
			puts := make(chan struct{}, 100)
			versions := make(chan string, 100) // of the log, that somebody reads
			w.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
				switch {
				case c.Op == mem.OpPut && strings.HasPrefix(c.Key, "_ledgerlake/leases/"):
					select {
					case puts <- struct{}{}:
					default:
					}
				case strings.HasPrefix(c.Key, "_delta_log/"):
					select {
					case versions <- c.Key:
					default:
					}
				}
				return mem.Fault{}
			})
			cfg := w.config()
			cfg.BatchRows, cfg.ReadAhead, cfg.LeaseAfter, cfg.LeaseTime = 4, 1, time.Nanosecond, 30*time.Millisecond
			if !leased {
				cfg.LeaseTime = -1
			}
			c := open(t, cfg)
			rb, err := c.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := append([]int64(nil), rb.Column(1).(*array.Int64).Int64Values()...)
			if leased {
				for range 4 { // taken, and renewed
					<-puts
				}
			}
			report := w.clearTable()
			if leased == (report.Deleted.Files > 0) || leased != (len(report.Leases) == 1) {
				t.Fatalf("vacuum amid the read: %+v", report)
			}
			for len(versions) > 0 {
				<-versions
			}
			got = append(got, offsets(t, c)...)
			wantRun(t, got, 0, 300)
			if planned := len(versions) > 0; planned == leased {
				t.Errorf("the reader planned again: %v", planned)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			w.store.SetHook(nil)
			if report = w.clearTable(); leased && report.Deleted.Files < 20 || len(report.Leases) > 0 {
				t.Errorf("after the read: %+v", report)
			}
			wantRun(t, offsets(t, open(t, w.config())), 0, 300)
		})
	}
}

// A read that is short takes no lease, and a store that refuses the lease stops no read.
func TestReaderLeaseIsNoBurden(t *testing.T) {
	w := smallFiles(t, 50)
	puts := make(chan struct{}, 100)
	w.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPut {
			select {
			case puts <- struct{}{}:
			default:
			}
			return mem.Fault{Before: errInjected}
		}
		return mem.Fault{}
	})
	cfg := w.config()
	cfg.LeaseAfter = time.Hour
	wantRun(t, offsets(t, open(t, cfg)), 0, 50)
	if len(puts) > 0 {
		t.Error("a short read wrote into the table")
	}
	cfg.LeaseAfter, cfg.BatchRows = time.Nanosecond, 5
	c := open(t, cfg)
	if _, err := c.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-puts
	wantRun(t, offsets(t, c), 5, 50)
	cfg.LeaseTime = 100 * 24 * time.Hour
	if _, err := reader.Open(t.Context(), cfg); err == nil {
		t.Error("a lease of 100 days was accepted")
	}
}
