package wire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/kafka/txnend"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/broker/wire"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

type node struct {
	log *local.Log
	srv *wire.Server
}

func open(t *testing.T, dir string) *node {
	t.Helper()
	return openWith(t, local.Config{Dir: dir})
}

func openWith(t *testing.T, cfg local.Config) *node {
	t.Helper()
	log, err := local.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := wire.Open(t.Context(), wire.Config{
		Listen: "127.0.0.1:0", Log: log, AutoCreateTopics: true, DefaultPartitions: 3, GroupJoinDelay: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &node{log: log, srv: srv}
}

func (n *node) close(t *testing.T) {
	t.Helper()
	if err := n.srv.Close(); err != nil {
		t.Error(err)
	}
	if err := n.log.Close(); err != nil {
		t.Error(err)
	}
}

func (n *node) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.srv.Addr().String()), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func send(t *testing.T, ctx context.Context, cl *kgo.Client, topic string, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		cl.Produce(ctx, &kgo.Record{
			Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: []byte(strings.Repeat("v", 100)), Timestamp: time.UnixMilli(int64(10_000 + i)),
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, ctx context.Context, cl *kgo.Client, n int) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	for count := 0; count < n; {
		fs := cl.PollFetches(ctx)
		if errs := fs.Errors(); len(errs) > 0 {
			t.Fatalf("%d of %d: %v", count, n, errs)
		}
		fs.EachRecord(func(r *kgo.Record) { keys[string(r.Key)] = true; count++ })
	}
	return keys
}

// The whole path over the durable log: I1 over a restart for records, topics and committed positions; I4 for
// what a group reads before and after.
func TestOverLocalLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	n := open(t, dir)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, c := range codecs {
		send(t, ctx, n.client(t, kgo.ProducerBatchCompression(c)), "t", 100*i, 100)
	}
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit()}
	cl := n.client(t, group...)
	if got := receive(t, ctx, cl, 500); len(got) != 500 {
		t.Fatalf("%d keys, want 500", len(got))
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	n.close(t)

	n = open(t, dir)
	defer n.close(t)
	send(t, ctx, n.client(t), "t", 500, 50)
	got := receive(t, ctx, n.client(t, group...), 50)
	for i := 500; i < 550; i++ {
		if !got[fmt.Sprintf("k%d", i)] {
			t.Fatalf("k%d is missing after the restart", i)
		}
	}
	if len(got) != 50 {
		t.Fatalf("%d keys after the restart, want 50", len(got))
	}
	adm := kadm.NewClient(n.client(t))
	ends, err := adm.ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if total != 550 {
		t.Fatalf("ends sum up to %d, want 550", total)
	}
	maxTS, err := adm.ListMaxTimestampOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	newest := int64(0)
	maxTS.Each(func(o kadm.ListedOffset) { newest = max(newest, o.Timestamp) })
	if newest != 10_549 {
		t.Fatalf("the newest timestamp is %d, want 10549", newest)
	}
	if res, err := adm.DeleteRecords(ctx, ends.Offsets()); err != nil || res.Error() != nil {
		t.Fatal(res, err)
	}
	starts, err := adm.ListStartOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if s, ok := starts.Lookup(o.Topic, o.Partition); !ok || s.Offset != o.Offset {
			t.Errorf("partition %d starts at %d after the delete, want %d", o.Partition, s.Offset, o.Offset)
		}
	})
}

// What the log refuses comes to the client as the right error.
func TestRefusalsOfLocalLog(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := open(t, t.TempDir())
	defer n.close(t)
	adm := kadm.NewClient(n.client(t))
	small := "2000"
	policy := "compact"
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"max.message.bytes": &small, "cleanup.policy": &policy}, "t"); err != nil {
		t.Fatal(err)
	}
	cl := n.client(t, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordRetries(1))
	for name, c := range map[string]struct {
		rec  kgo.Record
		want error
	}{
		"large": {kgo.Record{Key: []byte("k"), Value: make([]byte, 5000)}, kerr.MessageTooLarge},
		"key":   {kgo.Record{Value: []byte("v")}, kerr.InvalidRecord},
		"time":  {kgo.Record{Key: []byte("k"), Timestamp: time.Now().Add(48 * time.Hour)}, kerr.InvalidTimestamp},
	} {
		c.rec.Topic = "t"
		if err := cl.ProduceSync(ctx, &c.rec).FirstErr(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A log that is short of room refuses with an error after which clients try again, and takes what they send when there is room;
// groups go on noting their positions.
func TestNoRoom(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	mem := vfs.NewMem()
	n := openWith(t, local.Config{Dir: "/log", FS: mem, JournalBytes: 1 << 20, DiskReserve: 4 << 20})
	defer n.close(t)
	adm := kadm.NewClient(n.client(t))
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: "t", Value: []byte("v")}
	if err := n.client(t).ProduceSync(ctx, rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	mem.Limit(1 << 30)
	space, err := mem.Space("/")
	if err != nil {
		t.Fatal(err)
	}
	used := space.Total - space.Free
	mem.Limit(used + 7<<19)
	if err := n.log.Checkpoint(); err != nil { // it looks at the disk
		t.Fatal(err)
	}
	if err := n.client(t, kgo.RecordRetries(1), kgo.MetadataMinAge(10*time.Millisecond)).ProduceSync(ctx, rec).FirstErr(); !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("produce: %v", err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 1, -1)
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Errorf("commit of a position: %v", err)
	}
	mem.Limit(used + 64<<20)
	if err := n.client(t).ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("w")}).FirstErr(); err != nil {
		t.Errorf("there is room again: %v", err)
	}
}

// An explicit -1 is for ever and without limit even where the server's default is not, over a restart; a setting
// that is deleted is the default again.
func TestUnlimitedRetention(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	n := openWith(t, local.Config{Dir: dir, DefaultTopic: broker.TopicConfig{RetentionAge: time.Hour, RetentionBytes: 1000}})
	adm := kadm.NewClient(n.client(t))
	none := "-1"
	for topic, cfg := range map[string]map[string]*string{"all": {"retention.ms": &none, "retention.bytes": &none}, "default": nil} {
		if _, err := adm.CreateTopic(ctx, 1, 1, cfg, topic); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() map[string]string {
		t.Helper()
		configs, err := adm.DescribeTopicConfigs(ctx, "all", "default")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range configs {
			for _, c := range r.Configs {
				if strings.HasPrefix(c.Key, "retention") {
					got[r.Name+" "+c.Key] = c.MaybeValue()
				}
			}
		}
		return got
	}
	want := map[string]string{"all retention.ms": "-1", "all retention.bytes": "-1", "default retention.ms": "3600000", "default retention.bytes": "1000"}
	if got := shown(); !maps.Equal(got, want) {
		t.Fatalf("shown: %v", got)
	}
	n.close(t)
	n = openWith(t, local.Config{Dir: dir, DefaultTopic: broker.TopicConfig{RetentionAge: time.Hour, RetentionBytes: 1000}})
	defer n.close(t)
	adm = kadm.NewClient(n.client(t))
	if got := shown(); !maps.Equal(got, want) {
		t.Fatalf("shown after the restart: %v", got)
	}
	changes := []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "retention.ms"}, {Op: kadm.DeleteConfig, Name: "retention.bytes"}}
	if res, err := adm.AlterTopicConfigs(ctx, changes, "all"); err != nil || res[0].Err != nil {
		t.Fatal(res, err)
	}
	want["all retention.ms"], want["all retention.bytes"] = "3600000", "1000"
	if got := shown(); !maps.Equal(got, want) {
		t.Fatalf("shown after the settings were deleted: %v", got)
	}
}

// Settings are changed one by one and put back, and stay over a restart.
func topicSetting(t *testing.T, ctx context.Context, adm *kadm.Client, topic, name string) string {
	t.Helper()
	got, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got[0].Configs {
		if c.Key == name {
			return c.MaybeValue()
		}
	}
	t.Fatalf("%s has no setting %s", topic, name)
	return ""
}

func TestAlterTopicConfigs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	n := open(t, dir)
	adm := kadm.NewClient(n.client(t))
	hour, size := "3600000", "5000000"
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": &hour, "max.message.bytes": &size}, "t"); err != nil {
		t.Fatal(err)
	}
	alter := func(changes ...kadm.AlterConfig) error {
		t.Helper()
		res, err := adm.AlterTopicConfigs(ctx, changes, "t")
		if err != nil {
			t.Fatal(err)
		}
		return res[0].Err
	}
	bytes := "1000000"
	if err := alter(kadm.AlterConfig{Name: "retention.bytes", Value: &bytes}, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []kadm.AlterConfig{
		{Name: "no.such", Value: &bytes}, {Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &bytes},
		{Op: kadm.SubtractConfig, Name: "retention.bytes", Value: &bytes}, {Name: "retention.bytes"}, {Name: "retention.bytes", Value: &dir},
	} {
		if err := alter(bad); !errors.Is(err, kerr.InvalidConfig) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	compact, del := "compact", "delete"
	for _, step := range []struct {
		op    kadm.IncrementalOp
		value *string
		want  string
	}{{kadm.AppendConfig, &compact, "compact,delete"}, {kadm.AppendConfig, &compact, "compact,delete"}, {kadm.SubtractConfig, &del, "compact"}, {kadm.SubtractConfig, &compact, "delete"}} {
		if err := alter(kadm.AlterConfig{Op: step.op, Name: "cleanup.policy", Value: step.value}); err != nil {
			t.Fatal(err)
		}
		if got := topicSetting(t, ctx, adm, "t", "cleanup.policy"); got != step.want {
			t.Errorf("after %v %s the policy is %q, want %q", step.op, *step.value, got, step.want)
		}
	}
	n.close(t)
	n = open(t, dir)
	defer n.close(t)
	configs, err := kadm.NewClient(n.client(t)).DescribeTopicConfigs(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range configs[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["retention.bytes"] != bytes || got["retention.ms"] != "-1" || got["max.message.bytes"] != size {
		t.Fatalf("settings after the restart: %v", got)
	}
}

// A transaction of one record over the durable log, as one client sees it.
func BenchmarkTransaction(b *testing.B) {
	log, err := local.Open(b.Context(), local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	srv, err := wire.Open(b.Context(), wire.Config{Listen: "127.0.0.1:0", Log: log, AutoCreateTopics: true})
	if err != nil {
		b.Fatal(err)
	}
	defer srv.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(srv.Addr().String()), kgo.AllowAutoTopicCreation(), kgo.TransactionalID("x"), kgo.ProducerLinger(0))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for b.Loop() {
		if err := cl.BeginTransaction(); err != nil {
			b.Fatal(err)
		}
		if err := cl.ProduceSync(b.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			b.Fatal(err)
		}
		if err := txnend.End(b.Context(), cl, kgo.TryCommit, "t"); err != nil {
			b.Fatal(err)
		}
	}
}

// The producer of a batch learns which of its records a compacted topic does not take, and none of them is kept.
func TestRecordsAtFault(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := open(t, t.TempDir())
	defer n.close(t)
	cl := n.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	policy := "compact"
	made, err := kadm.NewClient(cl).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": &policy}, "t")
	if err != nil {
		t.Fatal(err)
	}
	b := record.NewBuilder(record.None)
	for _, key := range [][]byte{[]byte("k"), nil, []byte("k"), nil, {}} {
		b.Append(1000, key, []byte("v"), nil)
	}
	batch, err := b.Build(0)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 1000
	rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	rt.Topic, rt.TopicID, rp.Records = "t", made.ID, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	got := resp.Topics[0].Partitions[0]
	if got.ErrorCode != kerr.InvalidRecord.Code || len(got.ErrorRecords) != 2 || got.ErrorRecords[0].RelativeOffset != 1 || got.ErrorRecords[1].RelativeOffset != 3 || got.ErrorRecords[1].ErrorMessage == nil {
		t.Errorf("answered %+v, want records 1 and 3 at fault", got)
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, "t")
	if end, ok := ends.Lookup("t", 0); err != nil || !ok || end.Offset != 0 {
		t.Errorf("the topic ends at %+v, %v, want 0", end, err)
	}
}
