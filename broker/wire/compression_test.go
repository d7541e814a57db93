package wire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Topics of every compression.type take what producers send in every codec, small and large, and a foreign client reads it
// all; one that asks in a version older than zstd is told so (I4).
func TestCompressionTypes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := open(t, t.TempDir())
	defer n.close(t)
	adm := kadm.NewClient(n.client(t))
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, kind := range []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		if _, err := adm.CreateTopic(ctx, 3, 1, map[string]*string{"compression.type": &kind}, kind); err != nil {
			t.Fatal(err)
		}
		for i, c := range codecs {
			// One batch of 13 kB for one partition, and small ones of all of them in one request.
			send(t, ctx, n.client(t, kgo.ProducerBatchCompression(c), kgo.RecordPartitioner(kgo.StickyPartitioner())), kind, 200*i, 100)
			send(t, ctx, n.client(t, kgo.ProducerBatchCompression(c), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond)), kind, 200*i+100, 100)
		}
		total := 200 * len(codecs)
		got := receive(t, ctx, n.client(t, kgo.ConsumeTopics(kind), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), total)
		for i := range total {
			if !got[fmt.Sprint("k", i)] {
				t.Fatalf("%s: k%d is missing of %d", kind, i, len(got))
			}
		}
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes = 1 << 20
		part := kmsg.NewFetchRequestTopicPartition()
		part.PartitionMaxBytes = 1 << 20
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.Partitions = kind, append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(1, 9)
		resp, err := req.RequestWith(ctx, n.client(t, kgo.MaxVersions(versions)))
		if err != nil {
			t.Fatal(err)
		}
		want := int16(0)
		if kind == "zstd" {
			want = kerr.UnsupportedCompressionType.Code
		}
		if p := resp.Topics[0].Partitions[0]; resp.Version != 9 || p.ErrorCode != want || want == 0 && len(p.RecordBatches) == 0 {
			t.Errorf("%s by Fetch version %d: error code %d, want %d; %d bytes", kind, resp.Version, p.ErrorCode, want, len(p.RecordBatches))
		}
	}
}
