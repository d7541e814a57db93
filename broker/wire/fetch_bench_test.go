package wire_test

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/record"
)

// BenchmarkFetch reads the log through the port over and over, by a client that does nothing with what it gets.
func BenchmarkFetch(b *testing.B) {
	const partitions, batches, values = 12, 16, 400
	log, err := local.Open(b.Context(), local.Config{Dir: b.TempDir(), Durability: local.DurabilityNone})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	if _, err := log.CreateTopic(b.Context(), "t", broker.TopicConfig{Partitions: partitions}); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 690)
	src := rand.NewChaCha8([32]byte{1})
	var size int64
	for p := range int32(partitions) {
		for range batches {
			bl := record.NewBuilder(record.None)
			for range values {
				_, _ = src.Read(value)
				bl.Append(1, nil, value, nil)
			}
			raw, err := bl.Build(0)
			if err != nil {
				b.Fatal(err)
			}
			size += int64(len(raw))
			if _, err := log.Append(b.Context(), record.TopicPartition{Topic: "t", Partition: p}, raw); err != nil {
				b.Fatal(err)
			}
		}
	}
	srv, err := wire.Open(b.Context(), wire.Config{Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	nc, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Minute))
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes = 11, 64<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	for p := range int32(partitions) {
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.PartitionMaxBytes = p, 8<<20
		t.Partitions = append(t.Partitions, fp)
	}
	req.Topics = append(req.Topics, t)
	frame := kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := nc.Write(frame); err != nil {
			b.Fatal(err)
		}
		var head [4]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil {
			b.Fatal(err)
		}
		n := int64(binary.BigEndian.Uint32(head[:]))
		if n < size {
			b.Fatalf("an answer of %d bytes, want all %d", n, size)
		}
		if _, err := io.CopyN(io.Discard, nc, n); err != nil {
			b.Fatal(err)
		}
	}
}
