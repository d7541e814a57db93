package wire_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/record"
)

// I8: to look a time up costs no memory by what the batch decompresses to, so a batch of a few KB and many look-ups do not
// fill the memory of the server.
func TestListOffsetsMemory(t *testing.T) {
	n := openWith(t, local.Config{Dir: "/log", FS: vfs.NewMem()})
	defer n.close(t)
	adm := kadm.NewClient(n.client(t))
	tp := record.TopicPartition{Topic: "t"}
	if _, err := n.log.CreateTopic(t.Context(), "t", broker.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	const records, size = 60, 1 << 20
	now := time.Now().UnixMilli()
	for i, codec := range []record.Codec{record.Gzip, record.LZ4, record.Zstd} {
		b, last := record.NewBuilder(codec), int64(0)
		for range records {
			last = now + int64(i)
			b.Append(now-1000, nil, make([]byte, size), nil)
		}
		b.Append(last, nil, nil, nil)
		raw, err := b.Build(0)
		if err != nil {
			t.Fatal(err)
		}
		res, err := n.log.Append(t.Context(), tp, raw)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := adm.ListOffsetsAfterMilli(t.Context(), last, "t")
		runtime.ReadMemStats(&after)
		if o, _ := got.Lookup("t", 0); err != nil || o.Err != nil || o.Offset != int64(res.Base)+records || o.Timestamp != last {
			t.Fatalf("%s: %+v %v", codec, o, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > records/2*size {
			t.Errorf("%s: %d bytes were allocated to find a time among %d", codec, used, records*size)
		}
	}
}
