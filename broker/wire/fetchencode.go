package wire

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
)

const (
	gatherFrom = 64 << 10 // a Fetch answer of this size is sent from where its batches lie, without a copy
	gatherPart = 4 << 10  // ... smaller batches are copied all the same: each part costs the kernel too
)

// part of an answer: bytes, or batches in a file.
type part struct {
	bytes []byte
	file  *broker.FileRange
}

func (p part) size() int {
	if p.file != nil {
		return p.file.Size
	}
	return len(p.bytes)
}

// files are the batches of an answer that are not in it but in files: those of partitions whose RecordBatches is nil.
type files map[sessionKey]*broker.FileRange

func (f files) of(t *kmsg.FetchResponseTopic, p *kmsg.FetchResponseTopicPartition) *broker.FileRange {
	if p.RecordBatches != nil || len(f) == 0 {
		return nil
	}
	return f[sessionKey{t.Topic, t.TopicID, p.Partition}]
}

// batchBytes is how many bytes of batches an answer gives of a partition.
func (f files) batchBytes(t *kmsg.FetchResponseTopic, p *kmsg.FetchResponseTopicPartition) int {
	if file := f.of(t, p); file != nil {
		return file.Size
	}
	return len(p.RecordBatches)
}

func (f files) release() {
	for _, file := range f {
		file.Release()
	}
}

// gather encodes a Fetch answer as the parts that are to be sent one behind the other; the batches are not copied. It
// knows the fields that fetch fills, and gives nil for an answer with others, or one that is small and all in memory.
func gather(corr []byte, f *kmsg.FetchResponse, in files) []part {
	meta, records, ok := gatherSize(f)
	if !ok || records < gatherFrom && len(in) == 0 {
		return nil
	}
	g := &gatherer{flexible: f.Version >= 12, files: in, buf: make([]byte, 0, meta)}
	g.i32(int32(0)) // the length, below
	g.buf = append(g.buf, corr...)
	g.tags()
	g.i32(f.ThrottleMillis)
	if f.Version >= 7 {
		g.i16(f.ErrorCode)
		g.i32(f.SessionID)
	}
	g.count(len(f.Topics))
	for i := range f.Topics {
		t := &f.Topics[i]
		if f.Version >= 13 {
			g.buf = append(g.buf, t.TopicID[:]...)
		} else {
			g.text(t.Topic)
		}
		g.count(len(t.Partitions))
		for j := range t.Partitions {
			g.partition(f.Version, t, &t.Partitions[j])
		}
		g.tags()
	}
	g.tags()
	g.cut()
	total := 0
	for _, p := range g.parts {
		total += p.size()
	}
	binary.BigEndian.PutUint32(g.parts[0].bytes, uint32(total-4))
	return g.parts
}

// gatherSize gives a bound on what is beside the large batches, and the bytes of those in memory; false for fields that are not known here.
func gatherSize(f *kmsg.FetchResponse) (meta, records int, ok bool) {
	meta = 64
	if f.Version < 4 || f.UnknownTags.Len() > 0 || len(f.Brokers) > 0 {
		return 0, 0, false
	}
	for i := range f.Topics {
		t := &f.Topics[i]
		if t.UnknownTags.Len() > 0 {
			return 0, 0, false
		}
		meta += 64 + len(t.Topic)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1 || p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1 ||
				p.SnapshotID.EndOffset != -1 || p.SnapshotID.Epoch != -1 || p.UnknownTags.Len() > 0 {
				return 0, 0, false
			}
			meta += 64 + 17*len(p.AbortedTransactions)
			records += len(p.RecordBatches)
			if len(p.RecordBatches) < gatherPart {
				meta += len(p.RecordBatches)
			}
		}
	}
	return meta, records, true
}

// gatherer appends to buf, whose capacity is enough, and cuts it where a batch comes between.
type gatherer struct {
	flexible bool
	files    files
	buf      []byte // what is not yet among the parts
	parts    []part
}

func (g *gatherer) partition(version int16, t *kmsg.FetchResponseTopic, p *kmsg.FetchResponseTopicPartition) {
	g.i32(p.Partition)
	g.i16(p.ErrorCode)
	g.i64(p.HighWatermark)
	g.i64(p.LastStableOffset)
	if version >= 5 {
		g.i64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		g.null()
	} else {
		g.count(len(p.AbortedTransactions))
	}
	for _, a := range p.AbortedTransactions {
		g.i64(a.ProducerID)
		g.i64(a.FirstOffset)
		g.tags()
	}
	if version >= 11 {
		g.i32(p.PreferredReadReplica)
	}
	file := g.files.of(t, p)
	if p.RecordBatches == nil && file == nil {
		g.null()
	} else {
		g.count(g.files.batchBytes(t, p))
	}
	switch {
	case file != nil:
		g.cut()
		g.parts = append(g.parts, part{file: file})
	case len(p.RecordBatches) < gatherPart:
		g.buf = append(g.buf, p.RecordBatches...)
	default:
		g.cut()
		g.parts = append(g.parts, part{bytes: p.RecordBatches})
	}
	g.tags()
}

// cut makes a part of what is there.
func (g *gatherer) cut() {
	if n := len(g.buf); n > 0 {
		g.parts = append(g.parts, part{bytes: g.buf[:n:n]})
		g.buf = g.buf[n:]
	}
}

func (g *gatherer) i16(v int16) { g.buf = binary.BigEndian.AppendUint16(g.buf, uint16(v)) }
func (g *gatherer) i32(v int32) { g.buf = binary.BigEndian.AppendUint32(g.buf, uint32(v)) }
func (g *gatherer) i64(v int64) { g.buf = binary.BigEndian.AppendUint64(g.buf, uint64(v)) }

// count is the length of an array or of bytes.
func (g *gatherer) count(n int) {
	if g.flexible {
		g.buf = binary.AppendUvarint(g.buf, uint64(n)+1)
	} else {
		g.i32(int32(n))
	}
}

func (g *gatherer) null() {
	if g.flexible {
		g.buf = append(g.buf, 0)
	} else {
		g.i32(-1)
	}
}

func (g *gatherer) text(s string) {
	if g.flexible {
		g.buf = binary.AppendUvarint(g.buf, uint64(len(s))+1)
	} else {
		g.i16(int16(len(s)))
	}
	g.buf = append(g.buf, s...)
}

func (g *gatherer) tags() {
	if g.flexible {
		g.buf = append(g.buf, 0)
	}
}
