package broker

import (
	"context"

	"github.com/ledgerlake/ledgerlake/record"
)

// Counter is a Source that learns offsets by reading: its Bounds give what it has read so far as the end.
type Counter interface {
	Source
	// CountEnd reads on to the last stable message as it is now and gives the offset behind it.
	CountEnd(ctx context.Context, tp record.TopicPartition) (record.Offset, error)
}

// StableEnd gives the last stable offset of a partition as it is now, whatever it costs to find.
func StableEnd(ctx context.Context, src Source, tp record.TopicPartition) (record.Offset, error) {
	if c, ok := src.(Counter); ok {
		return c.CountEnd(ctx, tp)
	}
	b, err := src.Bounds(ctx, tp)
	return b.Stable, err
}
