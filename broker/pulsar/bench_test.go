package pulsar

import (
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/pulsar/pulsartest"
	"github.com/ledgerlake/ledgerlake/record"
)

// BenchmarkSource counts a topic to its end, and reads it: the two passes of a bounded run. Batches of 200 messages of 690
// bytes, from a broker in the same process, whose work is in the figures.
func BenchmarkSource(b *testing.B) {
	x := pulsartest.Start(b)
	const entries, count, size = 500, 200, 690
	x.Create(brokerName)
	values := make([]string, count)
	for i := range values {
		values[i] = strings.Repeat("v", size)
	}
	for i := range entries {
		x.Append(brokerName, count, pulsartest.Batch(int64(i*count), values...))
	}
	tp := record.TopicPartition{Topic: topicName}
	for _, pass := range []string{"count", "read"} {
		b.Run(pass, func(b *testing.B) {
			b.SetBytes(entries * count * size)
			b.ReportAllocs()
			for b.Loop() {
				s, err := Open(b.Context(), Config{Service: x.Addr()})
				if err != nil {
					b.Fatal(err)
				}
				if pass == "count" {
					end, err := s.CountEnd(b.Context(), tp)
					if err != nil || end != entries*count {
						b.Fatalf("the end is %d, %v", end, err)
					}
				}
				for from := record.Offset(0); pass == "read" && from < entries*count; {
					got, err := s.Fetch(b.Context(), []broker.FetchRange{{TP: tp, From: from, MaxBytes: 4 << 20}}, broker.FetchOptions{MinBytes: 1, MaxWait: 10 * time.Second})
					if err != nil || got[0].Err != nil {
						b.Fatal(err, got[0].Err)
					}
					for rest := got[0].Batches; len(rest) > 0; {
						h, err := record.ParseHeader(rest)
						if err != nil {
							b.Fatal(err)
						}
						from, rest = h.LastOffset()+1, rest[h.Size():]
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
