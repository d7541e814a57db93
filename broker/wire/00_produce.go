package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/acl"
	"github.com/ledgerlake/ledgerlake/record"
)

const (
	maxProducePartitions = 1 << 16 // entries of one request
	mostPartitionsAhead  = 1 << 12 // of a request behind which the next one begins before it is answered
	maxProduceTags       = 1 << 10 // tagged fields of one request: there are none that we know
)

// errUnanswered ends the connection of an acks=0 producer whose batch was refused: the only way to tell it.
var errUnanswered = errors.New("batch of an acks=0 request was refused")

// Produce, key 0, versions 3 to 13 (topic ids from 13).
//
// Versions 0 to 2 are announced, because librdkafka derives its features from them, and end the connection
// when used, as in Kafka 4. One v2 batch a partition. acks 1 and -1 both wait until the Log has the batch
// durable; acks 0 is not answered. Every partition has its own error, with a message from version 8 on,
// and names the records of a refused batch that are at fault.
// Batches of a transaction are taken only while it is open and the partition is part of it; from version 12 on
// the request itself makes it so. The handler returns when each batch has its offset; the answer follows when they are durable.
func apiProduce() api {
	return api{key: keyProduce, name: "Produce", min: 0, max: 13, served: 3, handle: (*Server).produce}
}

func (s *Server) produce(r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	refuseCode, refuse := s.admitProduce(r, req)
	seen := map[record.TopicPartition]bool{}
	in := s.newProducing(r, req)
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		*out = kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		name, unknown := s.resolveFor(s.hardCtx, r, acl.Write, rt.Topic, rt.TopicID, r.version >= 13)
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			rp, op := &rt.Partitions[j], &out.Partitions[j]
			*op = kmsg.NewProduceResponseTopicPartition()
			op.Partition, op.BaseOffset, op.LogAppendTime, op.LogStartOffset = rp.Partition, -1, -1, -1
			tp := record.TopicPartition{Topic: name, Partition: rp.Partition}
			switch {
			case refuse != nil:
				op.ErrorCode, op.ErrorMessage = refuseCode, msgOf(refuse)
			case unknown != nil:
				op.ErrorCode, op.ErrorMessage = codeOf(unknown), msgOf(unknown)
			case internalTopic(name):
				op.ErrorCode, op.ErrorMessage = codeOf(errInternalTopic), msgOf(errInternalTopic)
			case seen[tp]:
				op.ErrorCode, op.ErrorMessage = codeInvalidRequest, msgOf(errors.New("the partition stands twice in one request"))
			default:
				seen[tp] = true
				in.begin(tp, rp.Records, op)
			}
		}
	}
	in.begun()
	r.mute = s.quotas.charge(r, produceQuota, recordBytes(req))
	resp.ThrottleMillis = int32(r.mute.Milliseconds())
	// A client that is above its quota is told so first, one that asks for no answer may be cut off, and what many partitions
	// decode to is not counted (I8).
	last := r.mute > 0 || req.Acks == 0 || len(seen) > mostPartitionsAhead
	r.later = &later{ready: in.ready, last: last, finish: func() (kmsg.Response, error) {
		s.logAppends(resp)
		if req.Acks == 0 {
			return nil, firstProduceError(resp)
		}
		return resp, nil
	}}
	return nil, nil
}

// admitProduce says why a request is refused as a whole, and makes its partitions part of its transaction where that is the way.
func (s *Server) admitProduce(r *request, req *kmsg.ProduceRequest) (code int16, err error) {
	switch {
	case req.Acks < -1 || req.Acks > 1:
		return codeInvalidRequiredAcks, fmt.Errorf("acks is %d, want -1, 0 or 1", req.Acks)
	case req.TransactionID == nil:
		return codeNone, nil
	case s.txns == nil:
		return codeUnsupportedVersion, errNoTransactions
	}
	if err := s.allowedTxn(r, acl.Write, *req.TransactionID); err != nil {
		return codeOf(err), err
	}
	if r.version >= implicitTxnVersion {
		return s.beginProduce(r, req)
	}
	return codeNone, nil
}

// checkBatch sees to what the Log cannot know: the request's version, and that there is one batch only.
func checkBatch(batch []byte, version int16) (h record.BatchHeader, code int16, err error) {
	if len(batch) == 0 {
		return h, codeInvalidRecord, errors.New("no batch: each partition of a Produce request needs one")
	}
	if len(batch) > 16 && batch[16] != 2 {
		return h, codeUnsupportedFormat, fmt.Errorf("message format %d, want 2", batch[16])
	}
	h, err = record.ParseHeader(batch)
	switch {
	case err != nil:
		return h, codeCorruptMessage, err
	case h.Size() < len(batch):
		return h, codeInvalidRecord, fmt.Errorf("%d bytes behind the first batch: one batch a partition", len(batch)-h.Size())
	case h.Size() > len(batch):
		return h, codeCorruptMessage, fmt.Errorf("batch of %d bytes is cut at %d", h.Size(), len(batch))
	case h.Control():
		return h, codeInvalidRecord, errors.New("only the server writes control batches")
	case h.Codec() > record.Zstd:
		return h, codeUnsupportedCompression, fmt.Errorf("codec %d is unknown", h.Codec())
	case h.Codec() == record.Zstd && version < 7:
		return h, codeUnsupportedCompression, fmt.Errorf("zstd needs Produce version 7, this is %d", version)
	}
	return h, codeNone, nil
}

// logAppends tells of an append that the server is at fault for. On a full disk each of them fails.
func (s *Server) logAppends(resp *kmsg.ProduceResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; (p.ErrorCode == codeUnknownServerError || p.ErrorCode == codeStorageError) && s.failing.now() {
				s.lg.Error("append", "topic", resp.Topics[i].Topic, "partition", p.Partition, "err", deref(p.ErrorMessage))
			}
		}
	}
}

func firstProduceError(resp *kmsg.ProduceResponse) error {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != codeNone {
				return fmt.Errorf("%w: %s-%d: error code %d", errUnanswered, t.Topic, p.Partition, p.ErrorCode)
			}
		}
	}
	return nil
}

// checkProduceShape walks a Produce body and bounds the number of its entries before it is decoded: the
// decoder makes its arrays from counts that cost the sender two bytes an entry (I8).
func checkProduceShape(b []byte, version int16) (err error) {
	w := walker{b: b, flexible: version >= 9}
	w.skip(w.length(2)) // transactional id
	w.skip(2 + 4)       // acks, timeout
	total := 0
	for topics := w.count(); topics > 0 && w.err == nil; topics-- {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.length(2))
		}
		parts := w.count()
		if total += parts + 1; total > maxProducePartitions {
			return fmt.Errorf("%w: more than %d partitions in one request", errFrame, maxProducePartitions)
		}
		for ; parts > 0 && w.err == nil; parts-- {
			w.skip(4)
			w.skip(w.length(4))
			w.tags()
		}
		w.tags()
	}
	w.tags()
	return w.err
}

// walker steps over protocol fields without decoding them.
type walker struct {
	b        []byte
	flexible bool
	unknown  uint64 // tagged fields
	err      error
}

func (w *walker) skip(n int) {
	if w.err != nil {
		return
	}
	if n > len(w.b) {
		w.err = errFrame
		return
	}
	w.b = w.b[max(n, 0):]
}

// length reads the length of a string (width 2) or of bytes (width 4); null has length 0.
func (w *walker) length(width int) int {
	if w.err != nil {
		return 0
	}
	if w.flexible {
		v, rest, err := uvarint(w.b)
		if err != nil {
			w.err = err
			return 0
		}
		w.b = rest
		return max(int(v)-1, 0)
	}
	if len(w.b) < width {
		w.err = errFrame
		return 0
	}
	var n int
	if width == 2 {
		n = int(int16(binary.BigEndian.Uint16(w.b)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(w.b)))
	}
	w.b = w.b[width:]
	return max(n, 0)
}

// count reads the length of an array, each entry of which takes at least one byte.
func (w *walker) count() int {
	n := w.length(4)
	if n > len(w.b) || n > maxProducePartitions {
		w.err = errFrame
		return 0
	}
	return n
}

func (w *walker) tags() {
	if w.err == nil && w.flexible {
		var n uint64
		n, w.b, w.err = countTags(w.b)
		if w.unknown += n; w.err == nil && w.unknown > maxProduceTags {
			w.err = fmt.Errorf("%w: more than %d unknown fields in one request", errFrame, maxProduceTags)
		}
	}
}

func recordBytes(req *kmsg.ProduceRequest) (n int) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			n += len(req.Topics[i].Partitions[j].Records)
		}
	}
	return n
}
