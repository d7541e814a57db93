package wire

import (
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// tagged is a frame of OffsetFetch whose n groups carry one unknown field each: the most memory for a byte that
// we know of. With one set, a single group carries all n of them.
func tagged(n int, one bool) []byte {
	b := []byte{0, 0, 0, 0, 0, 9, 0, 8, 0, 0, 0, 1, 255, 255, 0}
	field := func(b []byte, key int) []byte { return append(binary.AppendUvarint(b, uint64(key)), 0) }
	groups, each := n, 1
	if one {
		groups, each = 1, n
	}
	b = binary.AppendUvarint(b, uint64(groups+1))
	for range groups {
		b = append(b, 1, 1) // the name, and no list of topics: an empty one
		b = binary.AppendUvarint(b, uint64(each))
		for key := range each {
			b = field(b, key)
		}
	}
	b = append(b, 0, 0) // require stable, tags
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// I8: what a frame takes while it is decoded is within what is set aside for it, and nothing of its unknown fields
// stays.
func TestUnknownTags(t *testing.T) {
	for name, one := range map[string]bool{"one each": false, "all in one": true} {
		in := tagged(100_000, one)[4:]
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, err := decode(in, 9, 8)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > decodeWeight*uint64(len(in)) {
			t.Errorf("%s: decoding %d bytes took %d, %d times as much, and %d times are counted", name, len(in), took, took/uint64(len(in)), decodeWeight)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2*controlWeight*int64(len(in)) {
			t.Errorf("%s: %d bytes keep %d", name, len(in), kept)
		}
		for _, g := range r.body.(*kmsg.OffsetFetchRequest).Groups {
			if g.UnknownTags.Len() > 0 {
				t.Fatalf("%s: an unknown field is kept", name)
			}
		}
	}
	produce := []byte{0, 0, 255, 255, 0, 0, 0, 0, 1} // no transaction, acks, time, no topics
	produce = append([]byte{0}, produce[2:]...)
	produce = binary.AppendUvarint(produce, 5000)
	for key := range 5000 {
		produce = append(binary.AppendUvarint(produce, uint64(key)), 0)
	}
	if err := checkProduceShape(produce, 9); err == nil || !strings.Contains(err.Error(), "unknown fields") {
		t.Errorf("a Produce request with 5000 unknown fields: %v", err)
	}
}

func longPoll(t *testing.T, nc net.Conn, partitions int) {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 60_000, 1, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "t"
	for range partitions {
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.PartitionMaxBytes = 1 << 20
		ft.Partitions = append(ft.Partitions, fp)
	}
	req.Topics = append(req.Topics, ft)
	if _, err := nc.Write(frameOf(req, 11, 1)); err != nil {
		t.Fatal(err)
	}
}

// I8: connections that send large frames behind long polls, and large long polls, hold nothing that others need.
func TestLargeFramesBehindPolls(t *testing.T) {
	log := newMemLog(t)
	s := start(t, log, func(c *Config) { c.MaxRequestBytes, c.MemoryBudget = 1<<20, 16<<20 })
	if _, err := log.CreateTopic(t.Context(), "t", topicOf(1)); err != nil {
		t.Fatal(err)
	}
	for range 8 { // more than there is memory for
		nc := dial(t, s)
		longPoll(t, nc, 1)
		if _, err := nc.Write(frameOf(produceRequest(t, 1, "none", strings.Repeat("x", 900_000)), 9, 2)); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 { // each 1,100 partitions: some 300 KB are counted for it
		longPoll(t, dial(t, s), 1100)
	}
	for range 5 {
		if got := sendProduce(t, dial(t, s), produceRequest(t, 1, "other", strings.Repeat("x", 900_000)), 9); got.ErrorCode != codeUnknownTopicOrPartition {
			t.Fatalf("code %d", got.ErrorCode)
		}
	}
	// A record ends the polls, and what stood behind them is served.
	if got := sendProduce(t, dial(t, s), produceRequest(t, 1, "t", "v"), 9); got.ErrorCode != 0 {
		t.Fatalf("code %d", got.ErrorCode)
	}
	if err := s.budget.Acquire(within(t, 10*time.Second), s.cfg.requestMemory()); err != nil {
		t.Fatal("memory of requests is not given back")
	}
	s.budget.Release(s.cfg.requestMemory())
}
