package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// validate checks a batch as a Kafka broker does, compresses it anew where the topic wants another codec, and stamps it
// for topics that want the broker's time.
func (l *Log) validate(ctx context.Context, cfg *broker.TopicConfig, in *admitted) error {
	h, err := record.ParseHeader(in.batch)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", broker.ErrCorruptBatch, err)
	case h.Size() != len(in.batch):
		return fmt.Errorf("%w: one batch of %d bytes in %d bytes", broker.ErrCorruptBatch, h.Size(), len(in.batch))
	case int64(len(in.batch)) > int64(cfg.MaxMessageBytes):
		return fmt.Errorf("%w: %d of %d bytes", broker.ErrTooLarge, len(in.batch), cfg.MaxMessageBytes)
	}
	b := record.Batch{BatchHeader: h, Raw: in.batch}
	if err := b.VerifyCRC(); err != nil {
		return fmt.Errorf("%w: %w", broker.ErrCorruptBatch, err)
	}
	if err := l.validateHeader(h); err != nil {
		return err
	}
	if err := l.validateRecords(ctx, cfg, b); err != nil {
		return err
	}
	now := l.cfg.Clock().UnixMilli()
	if ahead := l.cfg.MaxTimestampAhead; !cfg.LogAppendTime && ahead > 0 && h.MaxTimestamp > now+ahead.Milliseconds() {
		return fmt.Errorf("%w: %d is more than %s ahead of %d", broker.ErrInvalidTimestamp, h.MaxTimestamp, ahead, now)
	}
	codec, err := cfg.KeptAs(h.Codec())
	if err != nil {
		return err
	}
	if codec != h.Codec() {
		if err := l.recompress(ctx, cfg, b, codec, in); err != nil {
			return err
		}
	}
	if cfg.LogAppendTime {
		record.StampAppendTime(in.batch, now)
	}
	in.h, err = record.ParseHeader(in.batch)
	return err
}

// compressorMemory is what a compressor of any codec needs, about.
const compressorMemory = 4 << 20

// recompress brings a batch into another codec. The size that counts is that of both, as in Kafka.
func (l *Log) recompress(ctx context.Context, cfg *broker.TopicConfig, b record.Batch, codec record.Codec, in *admitted) error {
	need := min(b.ScanMemory()+compressorMemory+int64(cfg.MaxMessageBytes), l.cfg.ValidateMemory)
	if err := l.acquire(ctx, l.validating, need); err != nil {
		return err
	}
	in.held = need
	raw, err := record.Recompress(b, codec, l.cfg.MaxBatchMemory, int(cfg.MaxMessageBytes))
	if errors.Is(err, record.ErrTooLarge) {
		return fmt.Errorf("%w: %w", broker.ErrTooLarge, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", broker.ErrInvalidRecord, err)
	}
	in.batch = raw
	if keep := min(int64(len(raw)), need); keep < need { // the rest is free again
		l.validating.Release(need - keep)
		in.held = keep
	}
	return nil
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
		if err := l.acquire(ctx, l.validating, need); err != nil {
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
