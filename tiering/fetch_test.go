package tiering_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// sparing answers as Kafka does: once there is something, nothing of a partition whose first batch is larger than what is
// asked of it.
type sparing struct {
	*fakeLog
	most int // partitions in one answer
}

func (s *sparing) Fetch(ctx context.Context, ranges []broker.FetchRange, opts broker.FetchOptions) ([]broker.Fetched, error) {
	got, err := s.fakeLog.Fetch(ctx, ranges, opts)
	some := 0
	for i := range got {
		b, err := record.ReadBatch(got[i].Batches)
		switch {
		case err != nil:
		case some > 0 && b.Size() > ranges[i].MaxBytes:
			got[i].Batches = nil
		default:
			some++
		}
	}
	s.most = max(s.most, some)
	return got, err
}

// Batches that are larger than a partition's share of a fetch come several at a time, so that all decoders have work.
func TestLargeBatchesOfManyPartitions(t *testing.T) {
	const partitions = 12
	r := newRig(t, partitions)
	src := &sparing{fakeLog: r.log}
	r.cfg.Source = src
	note := strings.Repeat("x", 30<<10)
	for p := range int32(partitions) {
		var values [][]byte
		for i := range 10 {
			values = append(values, fmt.Appendf(nil, `{"n":%d,"s":"%s"}`, i, note))
		}
		r.log.append(t, p, record.None, values...)
	}
	if s := r.mustRun(); s.Rows != 10*partitions {
		t.Errorf("%d rows, want %d", s.Rows, 10*partitions)
	}
	if src.most < 3 {
		t.Errorf("a fetch gave batches of %d partitions at most", src.most)
	}
}
