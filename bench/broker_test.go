package bench

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// What is compared is the median of the rounds' ratios: a slow hour is on both sides of it.
func TestRatioIsOfOneRound(t *testing.T) {
	r := &Report{Samples: []Sample{
		{Case: "a", Round: 0, P50: 1}, {Case: "b", Round: 0, P50: 2}, {Case: "a", Round: 1, P50: 9}, {Case: "b", Round: 1, P50: 30},
		{Case: "a", Round: 2, P50: 3}, {Case: "b", Round: 2, P50: 4}, {Case: "a", Round: 3, P50: 5},
	}}
	p50 := func(s Sample) float64 { return s.P50 }
	if got := r.ratio("a", "b", p50); got != 0.5 {
		t.Errorf("%v, want the median of 1/2, 9/30 and 3/4", got)
	}
	got := r.ratio("a", "none", p50)
	r.atMost("of nothing", 2, got)
	r.atLeast("of nothing", 2, got)
	if !math.IsNaN(got) || r.Goals[0].Met || r.Goals[1].Met {
		t.Errorf("%v, %+v: a goal is met by nothing", got, r.Goals)
	}
}

// A slice of the load sends all of its records, to all partitions, and knows of each but the first tenth how long it waited.
func TestSliceOfTheSteadyLoad(t *testing.T) {
	const partitions = 3
	log, err := local.Open(t.Context(), local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	s := served(t, wire.Config{Log: log})
	cfg := Config{Records: 100}.withDefaults()
	w := &brokerWork{Config: cfg, report: &Report{}, values: brokerValues(cfg)}
	if err := kafka.CreateTopic(t.Context(), kafka.Config{Brokers: []string{s.addr}}, "steady", partitions, nil); err != nil {
		t.Fatal(err)
	}
	l, err := w.newSteadyLoad(t.Context(), brokerSide{brokerServer: s, name: sideDurable}, "steady", partitions)
	if err != nil {
		t.Fatal(err)
	}
	defer l.producer.Close()
	if err := l.slice(t.Context()); err != nil {
		t.Fatal(err)
	}
	const total = brokerRate // of a second
	var there record.Offset
	for p := range int32(partitions) {
		b, err := log.Bounds(t.Context(), record.TopicPartition{Topic: "steady", Partition: p})
		if err != nil || b.End < total/partitions {
			t.Fatalf("partition %d: %+v, %v", p, b, err)
		}
		there += b.End
	}
	if there != total || l.sample.Records != total || l.sample.Seconds < 0.9 || len(l.took) != total*9/10 {
		t.Errorf("%d records in the log, sample %+v, %d waits", there, l.sample, len(l.took))
	}
	w.waits(l.sample, l.took)
	if got := w.report.Samples[0]; l.took[0] <= 0 || got.P50 < l.took[0] || got.P95 < got.P50 || got.P99 < got.P95 {
		t.Errorf("waits %+v, least %v", got, l.took[0])
	}
}

// The yardstick syncs each of its appends.
func TestDiskYard(t *testing.T) {
	f, err := vfs.OS().Create(filepath.Join(t.TempDir(), "sync"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counted := &syncs{File: f}
	y := diskYard{file: counted}
	for range 2 {
		if err := y.appends(3); err != nil {
			t.Fatal(err)
		}
	}
	at, err := os.Stat(f.Name())
	if err != nil || at.Size() != 6*4096 || counted.n != 6 || len(y.took) != 6 || y.seconds <= 0 {
		t.Errorf("%v bytes, %v; %d syncs, %+v", at.Size(), err, counted.n, y)
	}
}

// syncs counts those of a file.
type syncs struct {
	vfs.File
	n int
}

func (s *syncs) SyncData() error {
	s.n++
	return s.File.SyncData()
}
