package tiering_test

import (
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/ledgerlake/ledgerlake/decode/transform"
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
	if tab, err := tiering.OpenDeadLetters(t.Context(), r.dead, tiering.LetterConfig{}); err == nil || !strings.Contains(err.Error(), "date") {
		t.Errorf("%v was taken", tab)
	}
}

// A dead letter table whose partition columns are filled by transforms, as kafka-delta-ingest's --dlq_transform did: letters go
// to the files of their values, with the columns that expressions over the letter and its record give; letters that are taken
// out go from each of them (I7).
func TestLetterTransforms(t *testing.T) {
	r := newRig(t, 1)
	r.dead = mem.New()
	text := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
	}
	schema, err := deltalog.FromArrow(arrow.NewSchema([]arrow.Field{text("base64_bytes"), text("json_string"), text("error"),
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, Nullable: true}, text("date"), text("kind"),
		{Name: "at", Type: arrow.StructOf(arrow.Field{Name: "offset", Type: arrow.PrimitiveTypes.Int64, Nullable: true}), Nullable: true}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	log, err := deltalog.Create(t.Context(), r.dead, deltalog.CreateOptions{Schema: schema, PartitionColumns: []string{"date", "kind"}}, deltalog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	r.cfg.Clock = func() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC) }
	r.cfg.LetterTransform = transform.Spec{Set: []transform.Field{
		{Property: "date", Source: "substr(epoch_micros_to_iso8601(timestamp),`0`,`10`)"}, {Property: "kind", Source: "field"}, {Property: "at.offset", Source: "kafka.offset"}}}
	r.log.append(t, 0, record.None, []byte("bad"), []byte(`{"n":"one"}`), []byte(`{"n":2}`), []byte(`{"n":[]}`))
	if s := r.mustRun(); s.Rows != 1 || s.DeadLetters != 3 {
		t.Fatalf("stats = %+v", s)
	}
	show := func() string {
		return strings.Join(scanned(t, r.dead, "_offset", "date", "kind", "at", "_field", "json_string", "base64_bytes", "_topic"), " ")
	}
	want := `0|2026-05-06|(null)|{"offset":0}|(null)|(null)|YmFk|orders 1|2026-05-06|n|{"offset":1}|n|{"n":"one"}|(null)|orders 3|2026-05-06|n|{"offset":3}|n|{"n":[]}|(null)|orders`
	if got := show(); got != want {
		t.Errorf("letters are\n%s\nwant\n%s", got, want)
	}
	if _, snap := rows(t, r.dead); snap.NumFiles() != 2 {
		t.Errorf("%d files", snap.NumFiles())
	}
	// The table is made anew with columns that these records fit: their letters go, the others stay.
	r.store = mem.New()
	r.partitioned(nil, arrow.Field{Name: "n", Type: arrow.BinaryTypes.String, Nullable: true})
	if s := r.mustRun(); s.Rows != 3 || s.DeadLetters != 1 {
		t.Fatalf("the second run: %+v", s)
	}
	if got := show(); got != want[:strings.Index(want, " 1|")] {
		t.Errorf("letters are\n%s", got)
	}
}

// A transform whose column is not there is refused before a letter is lost (I8); a new dead letter table has it.
func TestLetterTransformsNeedColumns(t *testing.T) {
	r := newRig(t, 1)
	foreignTable(t, r.dead, arrow.NewSchema([]arrow.Field{{Name: "error", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
	spec := transform.Spec{Set: []transform.Field{{Property: "day", Source: "kafka.timestamp", Type: "date"}}}
	if _, err := tiering.OpenDeadLetters(t.Context(), r.dead, tiering.LetterConfig{Transform: spec}); err == nil || !strings.Contains(err.Error(), "day") {
		t.Errorf("got %v", err)
	}
	tab, err := tiering.OpenDeadLetters(t.Context(), mem.New(), tiering.LetterConfig{Transform: spec})
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	if s, err := tab.PayloadSchema(); err != nil || !s.HasField("day") {
		t.Errorf("columns %v, %v", s, err)
	}
}
