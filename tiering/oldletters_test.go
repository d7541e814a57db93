package tiering_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/deltalog"
	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/tiering"
)

// A dead letter table of kafka-delta-ingest is taken over: its columns are filled as before and our coordinates beside
// them, so that a letter is there once though it is written again (I7).
func TestOldDeadLetters(t *testing.T) {
	r := newRig(t, 1)
	r.dead = mem.New()
	foreignTable(t, r.dead, arrow.NewSchema([]arrow.Field{
		{Name: "base64_bytes", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "json_string", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "error", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true},
	}, nil))
	r.log.append(t, 0, record.None, []byte(`{"n":1}`))
	r.log.append(t, 0, record.None, []byte("\xff\x00"), []byte(`{"n":"one"}`), []byte(`{"n":2}`))
	r.cfg.Source, r.cfg.MaxRows = oneBatch{r.log}, 1 // the first commit has no letter: the table is left alone
	if s := r.mustRun(); s.Rows != 2 || s.DeadLetters != 2 {
		t.Fatalf("stats = %+v", s)
	}
	got, snap := rows(t, r.dead)
	broken, wrong := got[place{0, 1}], got[place{0, 2}]
	if len(got) != 2 || broken["base64_bytes"] != "/wA=" || broken["json_string"] != "" || broken["error"] == "" || broken["timestamp"] == "" {
		t.Errorf("broken value: %q", broken)
	}
	if wrong["json_string"] != `{"n":"one"}` || wrong["base64_bytes"] != "" || wrong["_field"] != "n" || wrong["error"][:3] != "n: " || wrong["_value"] != `{"n":"one"}` {
		t.Errorf("wrong type: %q", wrong)
	}
	if f := snap.Schema().Fields; f[0].Name != "base64_bytes" || len(f) != 14 {
		t.Errorf("columns %v", f)
	}
	// Positions of the rows are lost, as by a restore of the table: the same letters are found, not written again.
	r.store = mem.New()
	foreignTable(t, r.store, payload())
	r.cfg.AsItIs = true
	r.mustRun()
	if again, _ := rows(t, r.dead); len(again) != 2 {
		t.Errorf("%d letters after the second run", len(again))
	}
}

// One with partition columns is refused before anything is lost (I8).
func TestOldDeadLettersPartitioned(t *testing.T) {
	r := newRig(t, 1)
	r.dead = mem.New()
	schema, err := deltalog.FromArrow(arrow.NewSchema([]arrow.Field{
		{Name: "error", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "date", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), r.dead, deltalog.CreateOptions{Schema: schema, PartitionColumns: []string{"date"}}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if tab, err := tiering.OpenDeadLetters(t.Context(), r.dead); err == nil || !strings.Contains(err.Error(), "date") {
		t.Errorf("%v was taken", tab)
	}
}
