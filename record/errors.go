package record

import (
	"errors"
	"fmt"
)

// Errors of the batch codec.
var (
	// ErrTruncated means that the bytes end inside a batch or its header.
	ErrTruncated = errors.New("record batch is truncated")
	// ErrCorrupt is matched by every *CorruptError.
	ErrCorrupt = errors.New("record batch is corrupt")
	// ErrEmptyBatch is returned by Builder.Build when nothing was appended.
	ErrEmptyBatch = errors.New("a record batch needs at least one record")
	// ErrUnencodable is returned by Builder.Build for records that do not fit one batch.
	ErrUnencodable = errors.New("records do not fit one batch")
	// ErrTooLarge is returned by Recompress for a result above its limit.
	ErrTooLarge = errors.New("record batch is larger than the limit")
)

// CorruptError says where a batch is damaged and how. Pos counts from the first byte of the batch; inside a
// compressed batch it counts as if the records had been stored uncompressed behind the header.
type CorruptError struct {
	Pos    int64
	Want   int64
	Got    int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record batch is corrupt at byte %d: %s: want %d, got %d", e.Pos, e.Reason, e.Want, e.Got)
}

// Is makes errors.Is(err, ErrCorrupt) true for every CorruptError.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func corrupt(pos, want, got int64, reason string) error {
	return &CorruptError{Pos: pos, Want: want, Got: got, Reason: reason}
}
