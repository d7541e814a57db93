package e2e

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka"
	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/dir"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// suspended is a producer whose owner sleeps before its first commit, until the cluster has aborted the transaction.
type suspended struct {
	reprocess.Producer
	sleep func(context.Context) error
}

func (s *suspended) Commit(ctx context.Context) error {
	if err := s.sleep(ctx); err != nil {
		return err
	}
	return s.Producer.Commit(ctx)
}

// A transaction into a topic of a real Kafka that the cluster aborted, as its owner was suspended for longer than it lasts: the
// job looks where the sink stands, and goes on. Each record is there once, in order, for who reads what is committed (I3, I4).
func TestTransactionIntoKafkaExpires(t *testing.T) {
	seed := seedtest.New(t)
	k := harness.Kafka(t)
	harness.CreateTopic(t, k.Addr, "events", 2)
	const n = 600
	produce(t, k.Addr, "events", seed, 0, n)
	cfg := kafka.Config{Brokers: []string{k.Addr}}
	src, err := kafka.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	slept := 0
	var once sync.Once
	sleep := func(ctx context.Context) (err error) {
		once.Do(func() {
			slept++
			err = aborted(ctx, src, record.TopicPartition{Topic: reprocess.PositionsTopic("clean")})
		})
		return err
	}
	state, err := dir.Open(dir.Config{Root: filepath.Join(t.TempDir(), "state"), FS: vfs.OS()})
	if err != nil {
		t.Fatal(err)
	}
	j, err := reprocess.Open(t.Context(), reprocess.Config{
		Spec:  reprocess.Spec{Name: "copy", Source: "kafka://" + k.Addr + "/events", Sink: "kafka://" + k.Addr + "/clean"},
		Topic: "events", Log: src, Sink: state, Workers: 1,
		Outlet: &reprocess.TopicOutlet{Topic: "clean", Log: src,
			Producer: func(ctx context.Context, id string) (reprocess.Producer, error) {
				p, err := kafka.OpenTxn(ctx, kafka.TxnConfig{Config: cfg, ID: id, Timeout: 2 * time.Second})
				return &suspended{p, sleep}, err
			},
			Create: func(ctx context.Context, topic string, partitions int32, settings map[string]string) error {
				return kafka.CreateTopic(ctx, cfg, topic, partitions, settings)
			}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if slept != 1 {
		t.Errorf("the owner of a transaction slept %d times", slept)
	}
	sameTopics(t, harness.Consume(t, k.Addr, "events"), harness.Consume(t, k.Addr, "clean"))
}

// aborted waits until what was open in a partition has been aborted: there is an end of it, and nothing hangs open below.
func aborted(ctx context.Context, src broker.Source, tp record.TopicPartition) error {
	for {
		b, err := src.Bounds(ctx, tp)
		if err != nil || b.Start < b.End && b.Stable == b.End {
			return err
		}
		if _, err := src.Fetch(ctx, []broker.FetchRange{{TP: tp, From: b.End}}, broker.FetchOptions{MinBytes: 1, MaxWait: 500 * time.Millisecond}); err != nil {
			return err
		}
	}
}
