package wire

import (
	"bytes"
	"crypto/rand"
	mrand "math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An answer in parts is, byte for byte, what the library makes of it, in every version; fields that are not known here
// are left to the library.
func TestGatherIsTheSameAnswer(t *testing.T) {
	seed := mrand.Uint64()
	t.Logf("seed %d", seed)
	rnd := mrand.New(mrand.NewPCG(seed, 1))
	for version := int16(4); version <= apiFetch().max; version++ {
		for range 50 {
			f := kmsg.NewPtrFetchResponse()
			f.Version, f.ThrottleMillis, f.SessionID = version, rnd.Int32(), rnd.Int32()
			for range 1 + rnd.IntN(4) {
				ft := kmsg.NewFetchResponseTopic()
				ft.Topic = []string{"", "t", "some.topic"}[rnd.IntN(3)]
				_, _ = rand.Read(ft.TopicID[:])
				for range rnd.IntN(4) {
					p := kmsg.NewFetchResponseTopicPartition()
					p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = rnd.Int32(), int16(rnd.IntN(9)), rnd.Int64(), rnd.Int64(), rnd.Int64()
					for range rnd.IntN(3) {
						p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: rnd.Int64(), FirstOffset: rnd.Int64()})
					}
					switch rnd.IntN(4) {
					case 0:
						p.RecordBatches = make([]byte, rnd.IntN(200<<10))
						_, _ = rand.Read(p.RecordBatches)
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
			parts, want := gather(corr, f), encode(corr, f, f.IsFlexible())
			_, records, _ := gatherSize(f)
			if (parts == nil) != (records < gatherFrom) {
				t.Fatalf("version %d: %d bytes of batches, %d parts", version, records, len(parts))
			}
			if parts != nil && !bytes.Equal(slices.Concat(parts...), want) {
				t.Fatalf("version %d: the parts are another answer", version)
			}
		}
	}
	f := kmsg.NewPtrFetchResponse()
	f.Version = 17
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches, p.DivergingEpoch.Epoch = make([]byte, 1<<20), 3
	f.Topics = []kmsg.FetchResponseTopic{{Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	if gather([]byte{0, 0, 0, 0}, f) != nil {
		t.Error("a field that is not known is left out")
	}
}
