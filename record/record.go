package record

import "fmt"

// Offset is the position of a record in its partition. Offsets start at 0, grow and are never reused (I2).
type Offset int64

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives the form that logs and errors use: topic-partition.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Header is one record header. Keys may repeat and keep their order. A nil Value is null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one decoded record. Key, Value and Headers alias memory of the Iterator that gave it and are
// valid until its next call; a nil Key or Value is null, an empty one is not.
type Record struct {
	Offset    Offset
	Timestamp int64 // milliseconds since the Unix epoch, UTC; -1 when the producer gave none
	Key       []byte
	Value     []byte
	Headers   []Header
}
