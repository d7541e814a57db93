package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
)

// An answer in parts is, byte for byte, what the library makes of it, in every version; fields that are not known here
// are left to the library.
func TestGatherIsTheSameAnswer(t *testing.T) {
	seed := seedtest.New(t)
	rnd, noise := rand.New(rand.NewPCG(seed, 1)), rand.NewChaCha8([32]byte{byte(seed)})
	for version := int16(4); version <= apiFetch().max; version++ {
		for range 50 {
			f := kmsg.NewPtrFetchResponse()
			f.Version, f.ThrottleMillis, f.SessionID = version, rnd.Int32(), rnd.Int32()
			for range 1 + rnd.IntN(4) {
				ft := kmsg.NewFetchResponseTopic()
				ft.Topic = []string{"", "t", "some.topic"}[rnd.IntN(3)]
				_, _ = noise.Read(ft.TopicID[:])
				for range rnd.IntN(4) {
					p := kmsg.NewFetchResponseTopicPartition()
					p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = rnd.Int32(), int16(rnd.IntN(9)), rnd.Int64(), rnd.Int64(), rnd.Int64()
					for range rnd.IntN(3) {
						p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: rnd.Int64(), FirstOffset: rnd.Int64()})
					}
					switch rnd.IntN(4) {
					case 0:
						p.RecordBatches = make([]byte, rnd.IntN(200<<10))
						_, _ = noise.Read(p.RecordBatches)
					case 1:
						p.RecordBatches = make([]byte, rnd.IntN(gatherPart+2))
					case 2:
						p.RecordBatches = []byte{}
					}
					ft.Partitions = append(ft.Partitions, p)
				}
				f.Topics = append(f.Topics, ft)
			}
			corr := []byte{1, 2, 3, 4}
			want := encode(corr, f, f.IsFlexible())
			in := someInFiles(rnd, f)
			parts := gather(corr, f, in)
			_, records, _ := gatherSize(f)
			if (parts == nil) != (records < gatherFrom && len(in) == 0) {
				t.Fatalf("version %d: %d bytes of batches, %d files, %d parts", version, records, len(in), len(parts))
			}
			if parts != nil && !bytes.Equal(joined(t, parts), want) {
				t.Fatalf("version %d: the parts are another answer", version)
			}
		}
	}
	f := kmsg.NewPtrFetchResponse()
	f.Version = 17
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches, p.DivergingEpoch.Epoch = make([]byte, 1<<20), 3
	f.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	if gather([]byte{0, 0, 0, 0}, f, nil) != nil {
		t.Error("a field that is not known is left out")
	}
}

// someInFiles moves some batches of an answer to where a log's file has them.
func someInFiles(rnd *rand.Rand, f *kmsg.FetchResponse) files {
	in := files{}
	for i := range f.Topics {
		ft := &f.Topics[i]
		for j := range ft.Partitions {
			if p := &ft.Partitions[j]; len(p.RecordBatches) > 0 && rnd.IntN(2) == 0 {
				log := append([]byte("before"), p.RecordBatches...)
				in[sessionKey{ft.Topic, ft.TopicID, p.Partition}] = &broker.FileRange{File: bytes.NewReader(log), Pos: 6, Size: len(p.RecordBatches)}
				p.RecordBatches = nil
			}
		}
	}
	return in
}

func joined(t *testing.T, parts []part) (out []byte) {
	t.Helper()
	for _, p := range parts {
		if p.file == nil {
			out = append(out, p.bytes...)
			continue
		}
		b := make([]byte, p.file.Size)
		if _, err := p.file.File.ReadAt(b, p.file.Pos); err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}
