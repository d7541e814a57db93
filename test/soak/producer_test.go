package soak

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 12

// producer fills all partitions in turn. The record of an offset is a function of partition and offset alone, so that
// a query over the table can tell whether each row is right.
type producer struct {
	client *kgo.Client
	sent   [partitions]int64
	total  atomic.Int64 // acknowledged
	failed atomic.Pointer[error]
}

func newProducer(addr, topic string) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(10*time.Millisecond), kgo.MaxBufferedRecords(100_000), kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.RequestRetries(10_000))
	return &producer{client: client}, err
}

var (
	methods = []string{"GET", "POST", "PUT", "DELETE"}
	epoch   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// message has 229 bytes or so, of which little is chance: the table of a long run has to fit on a disk.
func message(b []byte, p int32, n int64) []byte {
	b = strconv.AppendInt(append(b, `{"p":`...), int64(p), 10)
	b = strconv.AppendInt(append(b, `,"n":`...), n, 10)
	b = epoch.Add(time.Duration(n)*time.Millisecond).AppendFormat(append(b, `,"at":"`...), "2006-01-02T15:04:05.000Z")
	b = append(append(b, `","method":"`...), methods[n%4]...)
	b = strconv.AppendInt(append(b, `","status":`...), 200+n%7, 10)
	b = strconv.AppendInt(append(b, `,"url":"https://shop.example.org/products/articles/`...), (n*37+int64(p))%1009, 10)
	b = strconv.AppendInt(append(b, `","user":"user-`...), (n*7919+int64(p))%50021, 10)
	b = strconv.AppendFloat(append(b, `","amount":`...), float64((n*13)%100_000)/4, 'f', 2, 64)
	b = append(append(b, `,"meta":{"region":"eu-`...), byte('0'+n%8))
	return append(b, `","agent":"Mozilla/5.0 (X11; Linux x86_64)"},"ok":true}`...)
}

// fields are the columns that the table has.
const fields = `{"type":"struct","fields":[{"name":"p","type":"integer","nullable":true,"metadata":{}},{"name":"n","type":"long","nullable":true,"metadata":{}},
{"name":"at","type":"timestamp","nullable":true,"metadata":{}},{"name":"method","type":"string","nullable":true,"metadata":{}},
{"name":"status","type":"integer","nullable":true,"metadata":{}},{"name":"url","type":"string","nullable":true,"metadata":{}},
{"name":"user","type":"string","nullable":true,"metadata":{}},{"name":"amount","type":"double","nullable":true,"metadata":{}},
{"name":"meta","nullable":true,"metadata":{},"type":{"type":"struct","fields":[{"name":"region","type":"string","nullable":true,"metadata":{}},
{"name":"agent","type":"string","nullable":true,"metadata":{}}]}},{"name":"ok","type":"boolean","nullable":true,"metadata":{}}]}`

// run sends as long as fewer than ahead records are not in the table, until ctx ends; then all is acknowledged.
func (p *producer) run(ctx context.Context, ahead int64, rows *atomic.Int64) error {
	const round = 200 // records of each partition
	out := int64(0)
	for ctx.Err() == nil && p.failed.Load() == nil {
		if out-rows.Load() >= ahead {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
			continue
		}
		for part := range int32(partitions) {
			for range round {
				r := &kgo.Record{Partition: part, Value: message(make([]byte, 0, 288), part, p.sent[part])}
				p.client.Produce(context.WithoutCancel(ctx), r, p.done) // waits while too much is not acknowledged
				p.sent[part]++
				out++
			}
		}
	}
	if err := p.client.Flush(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *producer) done(r *kgo.Record, err error) {
	if err != nil {
		err = fmt.Errorf("a record of partition %d: %w", r.Partition, err)
		p.failed.CompareAndSwap(nil, &err)
		return
	}
	p.total.Add(1)
}
