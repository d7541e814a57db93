package web_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/broker"
	"github.com/ledgerlake/ledgerlake/broker/local"
	"github.com/ledgerlake/ledgerlake/internal/vfs"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/table"
	"github.com/ledgerlake/ledgerlake/tiering"
	"github.com/ledgerlake/ledgerlake/web"
)

// rig is an engine with one topic "events" of two partitions: an embedded log and a table, both in memory.
type rig struct {
	t     *testing.T
	log   *local.Log
	table *table.Table
	stats tiering.Stats
	url   string
}

func newRig(t *testing.T, cfg web.Config) *rig {
	t.Helper()
	ctx := t.Context()
	r := &rig{t: t}
	var err error
	if r.log, err = local.Open(ctx, local.Config{Dir: "/log", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.log.Close() })
	if _, err := r.log.CreateTopic(ctx, "events", broker.TopicConfig{Partitions: 2, Tiered: true}); err != nil {
		t.Fatal(err)
	}
	payload := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	if r.table, err = table.OpenOrCreate(ctx, mem.New(), payload, table.Config{Topic: "events"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.table.Log.Close() })
	cfg.Listen, cfg.Engine, cfg.Version = "127.0.0.1:0", r.log, "test"
	cfg.Table = func(topic string) (*table.Table, bool) { return r.table, topic == "events" }
	cfg.Tiering = func(topic string) (tiering.Stats, bool) { return r.stats, topic == "events" }
	s, err := web.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.url = "http://" + s.Addr().String()
	return r
}

// append adds the records n = from..to-1 to a partition of the log, a batch each.
func (r *rig) append(partition int32, from, to int) {
	r.t.Helper()
	for n := from; n < to; n++ {
		b := record.NewBuilder(record.None)
		b.Append(int64(1_700_000_000_000+n), fmt.Appendf(nil, "k%d", n), fmt.Appendf(nil, `{"n":%d}`, n), nil)
		raw, err := b.Build(0)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.log.Append(r.t.Context(), record.TopicPartition{Topic: "events", Partition: partition}, raw); err != nil {
			r.t.Fatal(err)
		}
	}
}

// tier brings everything that the log has into the table.
func (r *rig) tier() {
	r.t.Helper()
	tr, err := tiering.Open(r.t.Context(), tiering.Config{Source: r.log, Topic: "events", Table: r.table, Format: tiering.FormatJSON,
		UntilEnd: true, DeadLetters: r.table /* none of these records is bad */})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := tr.Run(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.stats = tr.Stats()
}

// get gives an answer and its whole body, so that trailers are in.
func (r *rig) get(path string, header ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(body)
}
