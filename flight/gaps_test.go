package flight_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	aflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/ledgerlake/ledgerlake/flight"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// gaps reads a ticket to its end, and gives what it told as lost: "[from, to) before N rows".
func (r *rig) gaps(ticket string) (told []string, rows int64) {
	r.t.Helper()
	stream, err := r.client.DoGet(r.t.Context(), &aflight.Ticket{Ticket: []byte(ticket)})
	if err != nil {
		r.t.Fatal(err)
	}
	in, err := aflight.NewRecordReader(stream)
	if err != nil {
		r.t.Fatal(err)
	}
	defer in.Release()
	for {
		rb, err := in.Read()
		if err == io.EOF {
			return told, rows
		}
		if err != nil {
			r.t.Fatal(err)
		}
		var m flight.Metadata
		if err := json.Unmarshal(in.LatestAppMetadata(), &m); err != nil || m.Token == "" {
			r.t.Fatal(m, err)
		}
		for _, g := range m.Gaps {
			told = append(told, fmt.Sprintf("%s-%d [%d, %d) %.4s before %d rows", g.Topic, g.Partition, g.From, g.To, g.Reason, rb.NumRows()))
		}
		rows += rb.NumRows()
	}
}

// Offsets that are lost are told with the batch behind them, or alone at the end (I4).
func TestLostOffsetsAreTold(t *testing.T) {
	r := newRig(t, flight.Config{})
	check := func(ticket string, rows int64, want ...string) {
		t.Helper()
		if got, n := r.gaps(ticket); fmt.Sprint(got) != fmt.Sprint(want) || n != rows {
			t.Errorf("%s: %q and %d rows, want %q and %d", ticket, got, n, want, rows)
		}
	}
	r.append(0, 10)
	r.tier()
	r.append(10, 20)
	if _, err := r.log.DeleteRecords(t.Context(), record.TopicPartition{Topic: "events"}, 15); err != nil {
		t.Fatal(err)
	}
	check(`{"topic":"events","from":"0:8","skipMissing":true}`, 7, "events-0 [10, 15) lost before 5 rows")
	r.tierWith(tiering.GapEarliest)
	check(`{"topic":"events","from":"0:8"}`, 7, "events-0 [10, 15) lost before 5 rows")
	check(`{"topic":"events","from":"0:8","until":"0:15"}`, 2, "events-0 [10, 15) lost before 0 rows")
	check(`{"topic":"events","from":"0:15"}`, 5)
	r.appendValue("no JSON")
	check(`{"topic":"events","from":"0:18"}`, 2)
	check(`{"topic":"events","from":"0:18","gaps":true}`, 2, "events-0 [20, 21) the  before 0 rows")
}
