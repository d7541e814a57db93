package broker

import (
	"fmt"
	"math"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
)

// TopicConfig are the settings of a topic that the embedded log honours. The zero value of each leaves it open: then what lies below counts (see
// Over), and at last DefaultTopicConfig. Its JSON is part of the formats of the log and of the protocol server's settings: never change, add.
type TopicConfig struct {
	Partitions       int32
	SegmentBytes     int64         // roll the active segment at this size; default 128 MiB
	SegmentAge       time.Duration // ... or this age; default 1 h
	RetentionBytes   int64         // per partition; -1 = no limit, whatever the default
	RetentionAge     time.Duration // -1 = for ever, whatever the default; below 1 ms: as soon as it can go
	MaxMessageBytes  int32         // largest batch; default 1 MiB + 12 as Kafka
	LogAppendTime    bool          // message.timestamp.type=LogAppendTime
	CreateTime       bool          `json:",omitempty"` // message.timestamp.type=CreateTime, whatever the default
	Compression      string        // compression.type; default producer. See KeptAs
	Compact          bool          // cleanup.policy=compact: the newest record of each key stays
	CompactDelete    bool          // with Compact: retention applies as well (compact,delete)
	Delete           bool          `json:",omitempty"` // cleanup.policy=delete, whatever the default
	DeleteRetention  time.Duration // how long a compacted topic keeps records without a value; default 24 h, -1 = not at all
	MinDirtyRatio    float64       // compact when so much of the log is not compacted; default 0.5, -1 = always
	MinCompactionLag time.Duration // records younger than this are not compacted; -1 = all are, whatever the default
	MaxCompactionLag time.Duration // ... and older ones are, whatever MinDirtyRatio says; default Never
	FlushMessages    int64         // without durability: sync after so many records; default never, math.MaxInt64 = never whatever the default
	FlushAge         time.Duration // ... and so long after a record came; -1 = at once, default Never
	Tiered           bool          // the lake is to get it all: nothing is dropped before the first Hold (I6)
}

// Never is a time that is not waited for, whatever the default.
const Never = time.Duration(math.MaxInt64)

const (
	// MaxPartitions is the most that one topic has.
	MaxPartitions = 10000
	// MinSegmentBytes keeps the number of files in proportion to the bytes. Kafka 4 wants 1 MiB.
	MinSegmentBytes = 1 << 10
)

// DefaultTopicConfig is what holds where nobody has said anything.
func DefaultTopicConfig() TopicConfig {
	return TopicConfig{Partitions: 1, SegmentBytes: 128 << 20, SegmentAge: time.Hour, MaxMessageBytes: 1<<20 + 12,
		DeleteRetention: 24 * time.Hour, MinDirtyRatio: 0.5}
}

// Over gives c with what it leaves open taken from what lies below it.
func (c TopicConfig) Over(below TopicConfig) TopicConfig {
	fill(&c.Partitions, below.Partitions)
	fill(&c.SegmentBytes, below.SegmentBytes)
	fill(&c.SegmentAge, below.SegmentAge)
	fill(&c.RetentionBytes, below.RetentionBytes)
	fill(&c.RetentionAge, below.RetentionAge)
	fill(&c.MaxMessageBytes, below.MaxMessageBytes)
	if !c.LogAppendTime && !c.CreateTime {
		c.LogAppendTime, c.CreateTime = below.LogAppendTime, below.CreateTime
	}
	fill(&c.Compression, below.Compression)
	if !c.Compact && !c.Delete {
		c.Compact, c.CompactDelete, c.Delete = below.Compact, below.CompactDelete, below.Delete
	}
	fill(&c.DeleteRetention, below.DeleteRetention)
	fill(&c.MinDirtyRatio, below.MinDirtyRatio)
	fill(&c.MinCompactionLag, below.MinCompactionLag)
	fill(&c.MaxCompactionLag, below.MaxCompactionLag)
	fill(&c.FlushMessages, below.FlushMessages)
	fill(&c.FlushAge, below.FlushAge)
	c.Tiered = c.Tiered || below.Tiered
	return c
}

func fill[T comparable](v *T, below T) {
	var open T
	if *v == open {
		*v = below
	}
}

// Check says what is wrong with settings that leave nothing open. Its error is an ErrInvalidTopic.
func (c TopicConfig) Check() error {
	if _, err := c.KeptAs(record.None); err != nil {
		return err
	}
	switch {
	case c.Partitions < 1 || c.Partitions > MaxPartitions:
		return fmt.Errorf("%w: %d partitions are not 1 to %d", ErrInvalidTopic, c.Partitions, MaxPartitions)
	case c.SegmentBytes < MinSegmentBytes || c.SegmentAge < time.Millisecond:
		return fmt.Errorf("%w: segments of %d bytes and %s; the least are %d and 1ms", ErrInvalidTopic, c.SegmentBytes, c.SegmentAge, MinSegmentBytes)
	case c.RetentionBytes < -1 || c.RetentionAge < -1:
		return fmt.Errorf("%w: retention %d bytes, %s", ErrInvalidTopic, c.RetentionBytes, c.RetentionAge)
	case !(c.MinDirtyRatio <= 1) || c.MinCompactionLag < -1:
		return fmt.Errorf("%w: dirty ratio %g, compaction lag %s", ErrInvalidTopic, c.MinDirtyRatio, c.MinCompactionLag)
	case c.MaxCompactionLag < 0 || c.MaxCompactionLag > 0 && c.MaxCompactionLag < c.MinCompactionLag:
		return fmt.Errorf("%w: the longest compaction lag, %s, is below the shortest, %s", ErrInvalidTopic, c.MaxCompactionLag, c.MinCompactionLag)
	case c.FlushMessages < 0 || c.FlushAge < -1:
		return fmt.Errorf("%w: flush after %d records, %s", ErrInvalidTopic, c.FlushMessages, c.FlushAge)
	case c.MaxMessageBytes < 1:
		return fmt.Errorf("%w: largest batch %d", ErrInvalidTopic, c.MaxMessageBytes)
	}
	return nil
}

// KeptAs gives the codec that a topic keeps a batch in which came with the codec sent, by Compression: producer (as it came),
// uncompressed, gzip, snappy, lz4 or zstd. Any other is an ErrInvalidTopic.
func (c TopicConfig) KeptAs(sent record.Codec) (record.Codec, error) {
	switch c.Compression {
	case "", "producer":
		return sent, nil
	case "uncompressed":
		return record.None, nil
	}
	codec, err := record.ParseCodec(c.Compression)
	if err != nil || codec == record.None {
		return sent, fmt.Errorf("%w: compression %q is not one of producer, uncompressed, gzip, snappy, lz4, zstd", ErrInvalidTopic, c.Compression)
	}
	return codec, nil
}
