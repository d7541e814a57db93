package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// validate checks a batch as a Kafka broker does and stamps it for topics that want the broker's time.
func (l *Log) validate(ctx context.Context, cfg *broker.TopicConfig, batch []byte) (record.BatchHeader, error) {
	h, err := record.ParseHeader(batch)
	switch {
	case err != nil:
		return h, fmt.Errorf("%w: %w", broker.ErrCorruptBatch, err)
	case h.Size() != len(batch):
		return h, fmt.Errorf("%w: one batch of %d bytes in %d bytes", broker.ErrCorruptBatch, h.Size(), len(batch))
	case int64(len(batch)) > int64(cfg.MaxMessageBytes):
		return h, fmt.Errorf("%w: %d of %d bytes", broker.ErrTooLarge, len(batch), cfg.MaxMessageBytes)
	}
	b := record.Batch{BatchHeader: h, Raw: batch}
	if err := b.VerifyCRC(); err != nil {
		return h, fmt.Errorf("%w: %w", broker.ErrCorruptBatch, err)
	}
	if err := l.validateHeader(h); err != nil {
		return h, err
	}
	if err := l.validateRecords(ctx, cfg, b); err != nil {
		return h, err
	}
	now := l.cfg.Clock().UnixMilli()
	if cfg.LogAppendTime {
		record.StampAppendTime(batch, now)
		return record.ParseHeader(batch)
	}
	if ahead := l.cfg.MaxTimestampAhead; ahead > 0 && h.MaxTimestamp > now+ahead.Milliseconds() {
		return h, fmt.Errorf("%w: %d is more than %s ahead of %d", broker.ErrInvalidTimestamp, h.MaxTimestamp, ahead, now)
	}
	return h, nil
}

func (l *Log) validateHeader(h record.BatchHeader) error {
	switch {
	case h.Control():
		return fmt.Errorf("%w: a control batch of a client", broker.ErrInvalidRecord)
	case h.Transactional() && h.ProducerID < 0:
		return fmt.Errorf("%w: a transactional batch without a producer id", broker.ErrInvalidRecord)
	case h.Codec() > record.Zstd:
		return fmt.Errorf("%w: compression codec %d", broker.ErrUnsupported, h.Codec())
	case h.LogAppendTime():
		return fmt.Errorf("%w: only the broker may stamp the append time", broker.ErrInvalidTimestamp)
	case h.Count < 1 || h.LastOffsetDelta != h.Count-1:
		return fmt.Errorf("%w: %d records, last offset delta %d", broker.ErrInvalidRecord, h.Count, h.LastOffsetDelta)
	case h.ProducerID >= 0 && (h.BaseSequence < 0 || h.ProducerEpoch < 0):
		return fmt.Errorf("%w: producer %d with sequence %d, epoch %d", broker.ErrInvalidRecord, h.ProducerID, h.BaseSequence, h.ProducerEpoch)
	}
	return nil
}

// validateRecords looks at every record once, so that a batch whose records contradict its header is the
// producer's error and not a reader's. Readers hold a decompressed batch, so MaxBatchMemory bounds it here; this
// only passes through it, and what all validations hold together is bounded too (I8).
func (l *Log) validateRecords(ctx context.Context, cfg *broker.TopicConfig, b record.Batch) error {
	if need := min(b.ScanMemory(), l.cfg.ValidateMemory); need > 0 {
		if err := l.validating.Acquire(ctx, need); err != nil {
			return err
		}
		defer l.validating.Release(need)
	}
	want := int32(0)
	var keyless []int32
	err := record.Scan(b, l.cfg.MaxBatchMemory, func(s record.Shape) error {
		if s.Delta != want {
			return fmt.Errorf("%w: record %d has offset delta %d", broker.ErrInvalidRecord, want, s.Delta)
		}
		if cfg.Compact && !s.HasKey && len(keyless) < broker.MaxRecordErrors {
			keyless = append(keyless, want)
		}
		want++
		return nil
	})
	if errors.Is(err, record.ErrCorrupt) {
		return fmt.Errorf("%w: %w", broker.ErrInvalidRecord, err)
	}
	if err == nil && len(keyless) > 0 {
		return &broker.RecordsError{Records: keyless, Reason: "a compacted topic wants a key"}
	}
	return err
}
