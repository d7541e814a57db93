package wire

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	gatherFrom = 64 << 10 // a Fetch answer of this size is sent from where its batches lie, without a copy
	gatherPart = 4 << 10  // ... smaller batches are copied all the same: each part costs the kernel too
)

// gather encodes a Fetch answer as the parts that are to be sent one behind the other; the batches are not copied. It
// knows the fields that fetch fills, and gives nil for an answer with others, or one that is small.
func gather(corr []byte, f *kmsg.FetchResponse) net.Buffers {
	meta, records, ok := gatherSize(f)
	if !ok || records < gatherFrom {
		return nil
	}
	g := &gatherer{flexible: f.Version >= 12, buf: make([]byte, 0, meta)}
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
			g.partition(f.Version, &t.Partitions[j])
		}
		g.tags()
	}
	g.tags()
	g.cut()
	total := 0
	for _, p := range g.parts {
		total += len(p)
	}
	binary.BigEndian.PutUint32(g.parts[0], uint32(total-4))
	return g.parts
}

// gatherSize gives a bound on what is beside the large batches, and the bytes of all; false for fields that are not known here.
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
	buf      []byte // what is not yet among the parts
	parts    net.Buffers
}

func (g *gatherer) partition(version int16, p *kmsg.FetchResponseTopicPartition) {
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
	if p.RecordBatches == nil {
		g.null()
	} else {
		g.count(len(p.RecordBatches))
	}
	if len(p.RecordBatches) < gatherPart {
		g.buf = append(g.buf, p.RecordBatches...)
	} else {
		g.cut()
		g.parts = append(g.parts, p.RecordBatches)
	}
	g.tags()
}

// cut makes a part of what is there.
func (g *gatherer) cut() {
	if n := len(g.buf); n > 0 {
		g.parts = append(g.parts, g.buf[:n:n])
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

// writeParts sends parts as write does: so much at once that the deadline bounds a stalled reader.
func (c *conn) writeParts(parts net.Buffers) error {
	for len(parts) > 0 {
		var chunk net.Buffers
		for n := 0; n < ioChunk && len(parts) > 0; {
			p := parts[0][:min(len(parts[0]), ioChunk-n)]
			chunk, n = append(chunk, p), n+len(p)
			if parts[0] = parts[0][len(p):]; len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.IOTimeout))
		if _, err := chunk.WriteTo(c.nc); err != nil {
			return fmt.Errorf("send answer: %w", err)
		}
	}
	return nil
}
