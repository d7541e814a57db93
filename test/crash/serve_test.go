package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Producers of every codec send to a served log that is killed, one after the other.
func TestServeIsKilled(t *testing.T) { killServe(t, harness.LoadConfig{Producers: 3}) }

// The same with transactions on half of the producers: what was committed is there as a whole, what was aborted,
// by the producer or because the server died in between, is in no table and in no read.
func TestServeIsKilledAmidTransactions(t *testing.T) {
	killServe(t, harness.LoadConfig{Producers: 4, Transactions: true})
}

// A served log with its tiering is killed while producers send. Segments, retention and flush age are
// small, so that kills fall into rolls, commits and deletions too, and most of the stream is read back
// from the table.
func killServe(t *testing.T, c harness.LoadConfig) {
	t.Helper()
	seed := seedtest.New(t)
	kills := harness.Kills(t, 12)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t, 0))
	flags := []string{"--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "150ms",
		"--segment-bytes", "262144", "--retention-bytes", "262144",
		"--retention-interval", "100ms", "--log-level", "warn"}
	optimizes := !c.Transactions // whose producers give up when a restart takes longer
	if optimizes {
		flags = append(flags, "--optimize-interval", "300ms", "--vacuum-interval", "2s")
	}

	s := harness.Serve(t, dir, addr, flags...)
	c.Addr, c.Topic, c.Seed, c.Rate = addr, "events", seed, number(t, "LEDGERLAKE_RATE", 4000)
	load := harness.StartLoad(t, c)
	for range kills {
		time.Sleep(time.Duration(50+r.IntN(700)) * time.Millisecond)
		s.Kill()
		if r.IntN(4) == 0 { // and once more while it recovers
			p := harness.Start(t, append([]string{"serve", "--dir", dir, "--kafka-listen", addr, "--http-listen", ""}, flags...)...)
			time.Sleep(time.Duration(r.IntN(80)) * time.Millisecond)
			p.Kill()
		}
		s = harness.Serve(t, dir, addr, flags...)
	}
	// The kills are over; the load goes on until there is something to show, however fast the machine is.
	harness.Eventually(t, time.Minute, func() error {
		switch {
		case load.Reached(100*kills) != nil:
			return load.Reached(100 * kills)
		case slices.Min(segmentOffsets(t, dir)) == 0:
			return errors.New("retention has removed nothing of a partition, so no reader would cross its seam")
		case optimizes && !bytes.Contains(harness.Run(t, nil, "inspect", s.Table("events"), "--history", "--limit", "0"), []byte("OPTIMIZE")):
			return errors.New("no file was merged in the background")
		}
		return nil
	})
	acked := load.Stop(t)
	consumed := byPosition(harness.Consume(t, addr, "events"))
	doubts := load.Settle(t, func(p harness.Position) bool { _, ok := consumed[p]; return ok })
	t.Logf("%d records acknowledged (and %d aborted, and %d transactions whose end nobody heard of) through %d kills", len(acked), load.Aborted(), doubts, kills)
	t.Logf("the oldest segments begin at %v: what lies below is read from the table", segmentOffsets(t, dir))
	wantConsumed(t, consumed, seed, acked)
	rows := harness.DecodeRows(t, harness.Run(t, nil, "read", dir+"/events", "--from", "earliest", "--until", "now", "--output", "ndjson"))
	harness.InOrder(t, "read over table and log", rows)
	harness.WantAcked(t, "read over table and log", slices.Values(rows), seed, acked)
	awaitRows(t, s.Table("events"), len(acked))
	s.Stop(t)

	// The table holds all of it, each offset once (I3).
	harness.WantAcked(t, "the table", harness.Rows(t, "read", s.Table("events"), "--output", "ndjson"), seed, acked)
	harness.Run(t, nil, "check", s.Table("events"))
	harness.Run(t, nil, "check", dir)
}

func byPosition(records []harness.Record) map[harness.Position]harness.Record {
	out := make(map[harness.Position]harness.Record, len(records))
	for _, r := range records {
		out[r.Position] = r
	}
	return out
}

// wantConsumed looks at what came over the Kafka protocol: every acknowledged event is at the offset that was
// acknowledged (I1, I2), and nothing more (I4).
func wantConsumed(t *testing.T, got map[harness.Position]harness.Record, seed uint64, acked map[int]harness.Position) {
	t.Helper()
	for n, at := range acked {
		e := harness.NewEvent(seed, n)
		r, ok := got[at]
		if !ok {
			t.Fatalf("event %d was acknowledged at %s and is not there", n, at)
		}
		if !bytes.Equal(r.Value, e.Value) || !bytes.Equal(r.Key, e.Key) {
			t.Fatalf("event %d was acknowledged at %s, where %.100q is", n, at, r.Value)
		}
	}
	if len(got) != len(acked) {
		t.Errorf("%d records are in the log, %d were acknowledged: an idempotent producer must not leave doubles", len(got), len(acked))
	}
}

// segmentOffsets gives the first offset in the log of each partition that has segments.
func segmentOffsets(t *testing.T, dir string) (first []int64) {
	t.Helper()
	oldest := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(dir, "log"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var base int64
		name, isLog := strings.CutSuffix(d.Name(), ".log")
		if !isLog || !strings.Contains(filepath.Base(filepath.Dir(path)), "events") {
			return nil
		}
		if base, err = strconv.ParseInt(name, 10, 64); err != nil {
			return err
		}
		if old, ok := oldest[filepath.Dir(path)]; !ok || base < old {
			oldest[filepath.Dir(path)] = base
		}
		return nil
	})
	if err != nil || len(oldest) == 0 {
		t.Fatalf("no segment of the topic: %v", err)
	}
	return slices.Collect(maps.Values(oldest))
}
