package local

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/record"
)

// BenchmarkAppend writes 64 KiB batches of 690-byte records to a real directory.
func BenchmarkAppend(b *testing.B) {
	builder := record.NewBuilder(record.None)
	for builder.Bytes() < 64<<10 {
		builder.Append(start.UnixMilli(), []byte("key"), bytes.Repeat([]byte("v"), 680), nil)
	}
	raw, err := builder.Build(0)
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range []Durability{DurabilityGroup, DurabilityNone} {
		for _, appenders := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/appenders=%d", d, appenders), func(b *testing.B) {
				l := mustOpen(b, Config{Dir: b.TempDir(), Durability: d, DefaultTopic: broker.TopicConfig{RetentionBytes: 512 << 20}})
				defer mustClose(b, l)
				mustCreate(b, l, "t", broker.TopicConfig{Partitions: 8})
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				b.SetParallelism(max(1, appenders/2))
				var n atomic.Int32
				if appenders == 1 {
					batch := bytes.Clone(raw)
					for b.Loop() {
						mustAppend(b, l, tp("t", 0), batch)
					}
					return
				}
				b.RunParallel(func(pb *testing.PB) {
					batch, p := bytes.Clone(raw), tp("t", n.Add(1)%8)
					for pb.Next() {
						mustAppend(b, l, p, batch)
					}
				})
			})
		}
	}
}
