package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
)

const (
	brokerRate   = 5000             // records a second, where latency is measured
	brokerPace   = time.Millisecond // between bursts of that load
	brokerSlice  = time.Second      // of which the first tenth is not counted
	brokerSlices = 6
	sliceSyncs   = 250 // syncs of the disk before each slice
)

// steady measures how long a record waits for its acknowledgement at a rate: a second by each side in turn, and before each turn a
// quarter of a second of the yardstick of what is durable, syncs of the disk at the same pace. A shared disk, and a shared
// processor, is twice as slow a minute later.
func (w *brokerWork) steady(ctx context.Context, sides []brokerSide, prefix string, partitions int, durable bool, round int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerTimeout, fmt.Errorf("%d records a second: not done within %s", brokerRate, brokerTimeout))
	defer cancel()
	var loads []*steadyLoad
	for _, s := range sides {
		if s.name == sideFlush && partitions > 12 {
			continue // it does not keep up
		}
		l, err := w.newSteadyLoad(ctx, s, brokerTopic(prefix, partitions), partitions)
		if err != nil {
			return err
		}
		defer l.producer.Close()
		loads = append(loads, l)
	}
	var yard diskYard
	if durable {
		f, err := vfs.OS().Create(filepath.Join(w.scratch, "sync"))
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		yard.file = f
	}
	for turn := range brokerSlices {
		if durable {
			if err := yard.appends(sliceSyncs); err != nil {
				return err
			}
		}
		for i := range loads {
			if err := loads[(i+turn)%len(loads)].slice(ctx); err != nil {
				return err
			}
		}
	}
	if durable {
		w.waits(Sample{Case: syncCase(partitions), Round: round, Seconds: yard.seconds}, yard.took)
	}
	for _, l := range loads {
		l.sample.Case, l.sample.Round, l.sample.MaxMB = brokerCase(l.side.name, "5,000 a second", partitions), round, l.side.peakMB()
		w.waits(l.sample, l.took)
	}
	return nil
}

// waits adds a sample of what was waited, in milliseconds.
func (w *brokerWork) waits(s Sample, ms []float64) {
	slices.Sort(ms)
	at := func(q float64) float64 { return ms[min(len(ms)-1, int(q*float64(len(ms))))] }
	s.P50, s.P95, s.P99 = at(0.5), at(0.95), at(0.99)
	w.report.Samples = append(w.report.Samples, s)
}

// syncCase names the yardstick beside topics of so many partitions.
func syncCase(partitions int) string { return fmt.Sprintf("disk sync, %d partitions", partitions) }

// diskYard is a file that is appended to, as the yardstick of what is durable.
type diskYard struct {
	file    vfs.File
	took    []float64 // by each append with its sync, milliseconds
	seconds float64   // all together
}

// appends adds n times 4 KiB at the pace of the load, and syncs each.
func (y *diskYard) appends(n int) error {
	begin := time.Now()
	for next := begin; n > 0; n-- {
		next = next.Add(brokerPace)
		time.Sleep(time.Until(next))
		from := time.Now()
		if _, err := y.file.Write(make([]byte, 4096)); err != nil {
			return err
		}
		if err := y.file.SyncData(); err != nil {
			return err
		}
		y.took = append(y.took, 1e3*time.Since(from).Seconds())
	}
	y.seconds += time.Since(begin).Seconds()
	return nil
}

// steadyLoad is a client that sends records at the rate.
type steadyLoad struct {
	side       brokerSide
	topic      string
	partitions int
	values     [][]byte
	producer   *kafka.Producer
	took       []float64 // by each record until it was acknowledged, milliseconds
	sample     Sample
}

// newSteadyLoad makes a client; the caller closes its producer.
func (w *brokerWork) newSteadyLoad(ctx context.Context, s brokerSide, topic string, partitions int) (*steadyLoad, error) {
	p, err := kafka.NewProducer(ctx, kafka.ProducerConfig{Config: kafka.Config{Brokers: []string{s.addr}}, Codec: "none", NoDelay: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return &steadyLoad{side: s, topic: topic, partitions: partitions, values: w.values, producer: p}, nil
}

// slice sends for a turn's time and waits for all acknowledgements. The client has one processor, which is far more than it
// needs: with two its scheduler wakes the second for each step of a record's way, which on a machine of two processors was 0.1 ms
// and more of a wait for our server.
func (l *steadyLoad) slice(ctx context.Context) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	total := int(brokerRate * brokerSlice.Seconds())
	waits := make([]atomic.Int64, total) // nanoseconds
	begin, cpu := time.Now(), l.side.cpu()
	tick := time.NewTicker(brokerPace)
	defer tick.Stop()
	for sent := 0; sent < total; {
		for due := min(total, int(brokerRate*time.Since(begin).Seconds())); sent < due; sent++ {
			at, now, v := &waits[sent], time.Now(), l.values[sent%len(l.values)]
			l.sample.Bytes += int64(len(v))
			if err := l.producer.SendThen(ctx, l.topic, int32(sent%l.partitions), nil, v, func() { at.Store(int64(time.Since(now))) }); err != nil {
				return fmt.Errorf("%s: %w", l.side.name, err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := l.producer.Flush(ctx); err != nil {
		return fmt.Errorf("%s: %w", l.side.name, err)
	}
	l.sample.Records += int64(total)
	l.sample.Seconds += time.Since(begin).Seconds()
	l.sample.CPUSeconds += (l.side.cpu() - cpu).Seconds()
	for i := total / 10; i < total; i++ {
		l.took = append(l.took, float64(waits[i].Load())/1e6)
	}
	return nil
}
