package ingest

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/tiering"
)

// The names are those of the old program, and the numbers are changes since the last packet.
func TestOldMetrics(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o := OldMetrics{Addr: pc.LocalAddr().String(), Tags: true, Every: time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	s := tiering.Stats{Rows: 10, Records: 12, DeadLetters: 2, Bytes: 2400, Commits: 2, CommitTime: 3 * time.Second, UploadTime: time.Second,
		Files: 2, FileBytes: 2000, Conflicts: 1, Lag: map[int32]int64{0: 5, 1: 70}}
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx, "web", "a", "/t", func() tiering.Stats { return s }) }()
	packets := ""
	buf := make([]byte, 65536)
	for range 2 { // the second has no changes
		if err := pc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, _, err := pc.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		packets += string(buf[:n]) + "\n"
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"messages.deserialization.completed:10|c", "messages.deserialization.failed:2|c", "delta.write.started:3|c", "delta.write.failed:1|c",
		"delta.write.duration:1500|ms", "recordbatch.write_duration:500|ms", "delta.add.size:1000|g", "messages.size:200|g",
		"delta.write.lag.total:75|g", "buffer.lag.max:70|g", "buffer.lag.min:5|g", "buffer.lag.num_partitions:2|g",
	} {
		if n := strings.Count(packets, "kafka_delta_ingest."+want+"|#topic:web,app:a,table:/t\n"); n < 1 || n > 1 && !strings.HasSuffix(want, "|g") {
			t.Errorf("%s is there %d times in\n%s", want, n, packets)
		}
	}
}
