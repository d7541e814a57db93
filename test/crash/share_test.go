package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// jobs is what the members of a share group know of its records.
type jobs struct {
	t    *testing.T
	addr string
	mu   sync.Mutex
	done map[int]bool // the server has said that it took what was made of them
	seen map[int]int  // how often they came
}

// Members of a share group accept, reject and let go records while the server is killed: every record comes to somebody (I1),
// and none that the server has said is decided comes again, before or after any kill.
func TestServeIsKilledUnderAShareGroup(t *testing.T) {
	seed := seedtest.New(t)
	r := rand.New(rand.NewPCG(seed, 0))
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	flags := []string{"--topic", "jobs:2", "--no-tiering", "--log-level", "warn"}
	s := harness.Serve(t, dir, addr, flags...)
	const records = 4000
	fillJobs(t, addr, records)
	j := &jobs{t: t, addr: addr, done: map[int]bool{}, seen: map[int]int{}}
	ctx, stop := context.WithCancel(t.Context())
	var members sync.WaitGroup
	defer func() { stop(); members.Wait() }()
	for i := range 3 {
		members.Go(func() { j.work(ctx, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	for range harness.Kills(t, 6) {
		time.Sleep(time.Duration(100+r.IntN(500)) * time.Millisecond)
		s.Kill()
		s = harness.Serve(t, dir, addr, flags...)
	}
	harness.Eventually(t, 2*time.Minute, func() error { return decided(t.Context(), addr) })
	stop()
	members.Wait()
	again := 0
	for n := range records {
		if j.seen[n] == 0 {
			t.Errorf("record %d came to nobody", n)
		}
		again += j.seen[n] - 1
	}
	t.Logf("%d records, %d of them known to be decided, given %d times more", records, len(j.done), again)
	if len(j.done) == 0 {
		t.Error("nothing was shown: no acknowledgement was answered")
	}
	s.Stop(t)
	harness.Run(t, nil, "check", dir)
}

// decided says, with a nil error, that the group has nothing left to do.
func decided(ctx context.Context, addr string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID = "workers"
	g.Topics = []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{{Topic: "jobs", Partitions: []int32{0, 1}}}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		if p.ErrorCode != 0 || p.Lag != 0 {
			return fmt.Errorf("partition %d: code %d, at %d, %d to come", p.Partition, p.ErrorCode, p.StartOffset, p.Lag)
		}
	}
	return nil
}

// fillJobs makes the records and the group, which begins with the first.
func fillJobs(t *testing.T, addr string, records int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("jobs"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "workers"
	for name, value := range map[string]string{"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000", "share.delivery.count.limit": "10"} {
		res.Configs = append(res.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Value: kmsg.StringPtr(value)})
	}
	req.Resources = append(req.Resources, res)
	if resp, err := req.RequestWith(ctx, cl); err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatalf("settings of the group: %+v, %v", resp, err)
	}
	for i := range records {
		cl.Produce(ctx, &kgo.Record{Value: strconv.AppendInt(nil, int64(i), 10)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		})
		if i%100 == 0 { // batches of different sizes
			if err := cl.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// work is one member.
func (j *jobs) work(ctx context.Context, r *rand.Rand) {
	var failed atomic.Bool
	cl, err := kgo.NewClient(kgo.SeedBrokers(j.addr), kgo.ConsumeTopics("jobs"), kgo.ShareGroup("workers"), kgo.ShareMaxRecords(40),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			for _, res := range results {
				if res.Err != nil {
					failed.Store(true)
				}
			}
		}))
	if err != nil {
		j.t.Error(err)
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		got := cl.PollFetches(poll).Records()
		cancel()
		failed.Store(false)
		var decided []int
		for _, rec := range got {
			n, err := strconv.Atoi(string(rec.Value))
			if err != nil {
				j.t.Error(err)
				return
			}
			j.came(n)
			switch r.IntN(20) {
			case 0:
				rec.Ack(kgo.AckRelease)
				continue
			case 1:
				rec.Ack(kgo.AckReject)
			default:
				rec.Ack(kgo.AckAccept)
			}
			decided = append(decided, n)
		}
		if err := cl.FlushAcks(ctx); err != nil || failed.Load() {
			continue // nobody can say what the server has taken
		}
		j.mu.Lock()
		for _, n := range decided {
			j.done[n] = true
		}
		j.mu.Unlock()
	}
}

func (j *jobs) came(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done[n] {
		j.t.Errorf("record %d came again after the server had taken what was made of it", n)
	}
	j.seen[n]++
}
