package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/internal/seedtest"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// A job runs with everything that can go wrong at once: its program ends at random records, two processes do the same
// splits without knowing of each other, so that work is delivered twice, and both are killed and started again at
// random. Its rows and dead letters are those of an undisturbed run (I3, I7).
func TestReprocessIsDisturbed(t *testing.T) {
	python := harness.Python(t)
	seed := seedtest.New(t)
	r := rand.New(rand.NewPCG(seed, 9))
	dir := t.TempDir()
	s := harness.Serve(t, dir, "", "--topic", "events:3", "--format", "json", "--schema", harness.WriteEventSchema(t), "--flush-age", "100ms")
	load := harness.StartLoad(t, harness.LoadConfig{Addr: s.Addr, Topic: "events", Seed: seed})
	harness.Eventually(t, time.Minute, func() error { return load.Reached(8000) })
	load.Stop(t)

	marks := filepath.Join(dir, "marks")
	if err := os.Mkdir(marks, 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("moody.py")
	if err != nil {
		t.Fatal(err)
	}
	job := func(name string, disturbed ...string) (file, sink string) {
		file, sink = filepath.Join(dir, name+".yaml"), filepath.Join(dir, name)
		command, err := json.Marshal(append([]string{python, script, fmt.Sprint(seed)}, disturbed...))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("name: %s\nsource: %s/events\nsink: %s\ncommand: %s\nsplitBytes: 50000\n", name, dir, sink, command)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file, sink
	}
	calm, want := job("calm")
	harness.Run(t, nil, "reprocess", calm)
	// The last record of a partition waits for the gate: no run is over before the kills have begun.
	gate := filepath.Join(dir, "gate")
	moody, got := job("moody", marks, gate, fmt.Sprintf("2-%d", harness.Ends(t, s.Addr, "events")[2]-1))
	args := []string{"reprocess", moody, "--flush-rows", "150", "--workers", "2", "--log-level", "warn"}
	procs := []*harness.Process{harness.Start(t, args...), harness.Start(t, args...)}
	status := func() (offsets, decided int64, err error) {
		var st struct{ Offsets, Decided int64 }
		out, err := harness.TryRun(t, nil, "reprocess", "status", moody, "--json")
		if err == nil {
			err = json.Unmarshal(out, &st)
		}
		return st.Offsets, st.Decided, err
	}
	harness.Eventually(t, time.Minute, func() error {
		_, decided, err := status()
		if err == nil && decided == 0 {
			err = errors.New("nothing is done yet: a kill would disturb nothing")
		}
		return err
	})
	open := func() {
		if err := os.WriteFile(gate, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kills := 0
	for n := range harness.Kills(t, 30) {
		i := r.IntN(len(procs))
		select {
		case <-procs[i].Done():
		default:
			kills++
		}
		procs[i].Kill()
		if n == 2 {
			open()
		}
		if offsets, decided, err := status(); err == nil && decided == offsets {
			break
		}
		procs[i] = harness.Start(t, args...)
		time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
	}
	open()
	for _, p := range procs {
		p.Kill()
	}
	harness.Run(t, nil, args...)
	died, err := os.ReadDir(marks)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kills of processes, %d ends of the program", kills, len(died))
	if kills == 0 || len(died) == 0 {
		t.Error("nothing was disturbed: the run proves nothing")
	}
	for _, suffix := range []string{"", "_dead_letters"} {
		sameTables(t, got+suffix, want+suffix)
	}
	harness.Run(t, nil, "check", got)
	harness.Run(t, nil, args...) // nothing is left to do, and nothing is written twice
	sameTables(t, got, want)
}

// sameTables compares two tables row by row, in what belongs to the record and the model.
func sameTables(t *testing.T, got, want string) {
	t.Helper()
	read := func(table string) map[harness.Position]map[string]any {
		rows := slices.Collect(harness.Rows(t, "read", table, "--output", "ndjson"))
		for _, row := range rows {
			delete(row, "_at") // when a letter was written
		}
		return harness.ByPosition(t, table, rows)
	}
	harness.SameRows(t, "the disturbed run", read(got), "the calm one", read(want))
}
