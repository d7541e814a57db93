package local

import (
	"fmt"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

// Slow readers keep a bounded number of files open, whether those are of active segments, of such that have ended since, or of topics
// that were deleted; those that get no file read into memory (I8).
func TestPinsBound(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleted %v", deleted), func(t *testing.T) {
			cfg := smallConfig(vfs.NewMem())
			cfg.OpenSegments = 4
			l := mustOpen(t, cfg)
			defer mustClose(t, l)
			mustCreate(t, l, "t", broker.TopicConfig{Partitions: 1, SegmentBytes: 1100})
			var held []broker.Fetched
			for range 30 {
				res, err := l.Append(t.Context(), tp("t", 0), batchOf(t, fmt.Sprintf("%0600d", 1)))
				if err != nil {
					t.Fatal(err)
				}
				got, err := l.Fetch(t.Context(), []broker.FetchRange{{TP: tp("t", 0), From: res.Base}}, broker.FetchOptions{InFiles: true})
				switch {
				case err != nil || got[0].Err != nil:
					t.Fatal(err, got[0].Err)
				case got[0].File != nil:
					held = append(held, got[0])
				case len(got[0].Batches) == 0:
					t.Fatal("nothing is read")
				}
				if deleted {
					if err := l.DeleteTopic(t.Context(), "t"); err != nil {
						t.Fatal(err)
					}
					mustCreate(t, l, "t", broker.TopicConfig{Partitions: 1, SegmentBytes: 1100})
				}
			}
			if len(held) < cfg.OpenSegments || len(held) > cfg.OpenSegments+1 {
				t.Errorf("%d answers keep files, %d ended segments may", len(held), cfg.OpenSegments)
			}
			releaseFiles(held)
			if l.pins.held != 0 {
				t.Errorf("%d files count, and none is in use", l.pins.held)
			}
		})
	}
}
