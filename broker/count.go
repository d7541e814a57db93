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

// EndMark says of one who has read all below next whether the end that was marked is reached, and where that is. It may be
// asked often, and reads nothing.
type EndMark func(ctx context.Context, next record.Offset) (end record.Offset, reached bool, err error)

// Marker is a Counter that can note where the end is before it knows its offset: who reads up to there reads once.
type Marker interface {
	Counter
	// MarkEnd notes the last stable message as it is now.
	MarkEnd(ctx context.Context, tp record.TopicPartition) (EndMark, error)
}

// StableEnd gives the last stable offset of a partition as it is now, whatever it costs to find.
func StableEnd(ctx context.Context, src Source, tp record.TopicPartition) (record.Offset, error) {
	if c, ok := src.(Counter); ok {
		return c.CountEnd(ctx, tp)
	}
	b, err := src.Bounds(ctx, tp)
	return b.Stable, err
}
