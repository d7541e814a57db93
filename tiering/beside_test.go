package tiering_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode"
	"github.com/ledgerlake/ledgerlake/objstore"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
)

// tallied is a decoder that counts its values.
type tallied struct {
	decode.Decoder
	n *atomic.Int64
}

func (c tallied) Append(v []byte) error {
	c.n.Add(1)
	return c.Decoder.Append(v)
}

// onDataFile calls a hook when a data file is made, which the encoder of its first row group does.
func (r *rig) onDataFile(hook func() error) {
	r.cfg.RowGroupRows = 5000 // less than is encoded at a time
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpCreate && strings.HasSuffix(c.Key, ".parquet") {
			return mem.Fault{Before: hook()}
		}
		return mem.Fault{}
	})
}

const besideRows = 40_000 // some MiB of columns: they are encoded several times

// The columns of a lone partition are encoded while the next are decoded: an encoder that waits for that would else wait for ever.
func TestEncodesBesideDecoding(t *testing.T) {
	first := decodedBefore(t, 1, 0) // a lone decoder has nobody beside it
	for _, workers := range []int{2, 16} {
		t.Run(fmt.Sprint(workers, " decoders"), func(t *testing.T) { decodedBefore(t, workers, first) })
	}
}

// decodedBefore gives how many values are decoded when the first file is made, which waits until there are more than so many.
func decodedBefore(t *testing.T, workers int, more int64) (first int64) {
	r := newRig(t, 1)
	r.cfg.Workers = workers
	r.fill(besideRows, 500)
	var decoded atomic.Int64
	r.cfg.NewDecoder = func(payload *arrow.Schema) (decode.Decoder, error) {
		d, err := decode.ForTable(payload)
		return tallied{d, &decoded}, err
	}
	var once sync.Once
	r.onDataFile(func() error {
		once.Do(func() {
			limit := time.After(time.Minute)
			for decoded.Load() <= more {
				select {
				case <-time.After(time.Millisecond):
				case <-limit:
					t.Error("nothing is decoded beside the encoder")
					return
				}
			}
			first = decoded.Load()
		})
		return nil
	})
	s := r.mustRun()
	if s.Rows != besideRows || first == 0 || first == besideRows {
		t.Errorf("%d rows, the first file after %d", s.Rows, first)
	}
	r.check()
	return first
}

// brokenFiles is a store whose data files fail: as they are made, in the middle of an encoding, or as they are closed.
type brokenFiles struct {
	objstore.Store
	at   string
	left atomic.Int64 // so many times
	made atomic.Int64
}

func (b *brokenFiles) fail(at string) error {
	if at == b.at && b.left.Add(-1) >= 0 {
		return errors.New("no place for a file")
	}
	return nil
}

func (b *brokenFiles) Create(ctx context.Context, key string) (objstore.Writer, error) {
	if !strings.HasSuffix(key, ".parquet") {
		return b.Store.Create(ctx, key)
	}
	b.made.Add(1)
	if err := b.fail("create"); err != nil {
		return nil, err
	}
	w, err := b.Store.Create(ctx, key)
	return &brokenFile{Writer: w, of: b}, err
}

type brokenFile struct {
	objstore.Writer
	of    *brokenFiles
	wrote int
}

func (f *brokenFile) Write(p []byte) (int, error) {
	if f.wrote++; f.wrote == 2 {
		if err := f.of.fail("write"); err != nil {
			return 0, err
		}
	}
	return f.Writer.Write(p)
}

func (f *brokenFile) Close() error {
	if err := f.of.fail("close"); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Writer.Close()
}

// I1, I3: what an encoder could not write is in no commit, and is written by the next try; whatever was encoded beside it.
func TestEncodingBesideFails(t *testing.T) {
	for name, partitions := range map[string]int{"beside": 1, "in turn": 2} {
		for _, at := range []string{"create", "write", "close"} {
			t.Run(name+"/"+at, func(t *testing.T) {
				r := newRig(t, partitions)
				r.cfg.MaxRows = besideRows / 4 // cuts while an encoding is under way
				r.cfg.RowGroupRows = 5000      // less than is encoded at a time
				r.fill(besideRows, 500)
				files := &brokenFiles{Store: r.store, at: at}
				files.left.Store(3)
				r.through = files
				r.mustRun()
				if files.left.Load() >= 0 || files.made.Load() < 4 {
					t.Errorf("%d files, %d failures left", files.made.Load(), files.left.Load())
				}
				r.check()
			})
		}
	}
}

// Where there is memory for no more, columns that are encoded beside others are waited for, and that ends.
func TestEncodesBesideInLittleMemory(t *testing.T) {
	r := newRig(t, 1)
	r.cfg.MemoryBudget = 8 << 20
	r.fill(besideRows, 500)
	r.mustRun()
	r.check()
}
