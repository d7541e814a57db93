package bench

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func modelReports() []*Report {
	return []*Report{
		{Scenario: "ingest", Commit: "abc", Samples: []Sample{
			{Case: "ledgerlake, event x12", CPUSeconds: 10, Seconds: 5, Bytes: 1e9, FileBytes: 5e8, MaxMB: 120, Records: 1e6},
			{Case: "ledgerlake, S3 fresh, 2000/s", CPUSeconds: 1, Seconds: 20, Bytes: 1e6, Versions: 10, Records: 100,
				Requests: map[string]int64{"PutObject": 20, "ListObjectsV2": 10, "GetObject": 5, "DeleteObject": 7}},
		}},
		{Scenario: "committer", Samples: []Sample{{Case: "versitygw: direct", Seconds: 5, Records: 50}}},
	}
}

// Each figure of the model is arithmetic on a named constant: 10 CPU seconds a GB at 1 GB/s are 10 processors, which two
// thirds of two machines of 8 hold.
func TestCostModelIsArithmeticOnWhatWasMeasured(t *testing.T) {
	at := Scale{Partitions: 100, GBps: 1, PB: 1, Tables: 1, FlushAge: 0.02, FileMB: 500, CPUs: 8, MemoryGB: 32}
	m, err := NewCostModel(modelReports(), at, Prices{CPUHour: 0.36, Put1000: 1, Get1000: 1, StorageTBMo: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, e := range m.Estimates {
		got[e.Name] = e.Value
	}
	for name, want := range map[string]float64{
		"processors that ingest uses": 10, "machines": 2, "processors a TB ingested": 1, "storage a month": 5000,
		"requests a TB ingested":                  2 / 0.02 * 1000 * 3.5 / 1000,
		"commits a second to a table, direct":     100,
		"memory of an ingest process a partition": 120 * 50.0 / 12,
	} {
		if math.Abs(got[name]-want) > want*1e-9 {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if first := m.firstLimit(); first.Name != "commits a second to a table, direct" || first.Load() != 10 {
		t.Errorf("breaks first: %+v", first)
	}
	// What stands on a report that is not there is not said, and the list of constants says what is missing.
	var text bytes.Buffer
	if err := m.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if _, ok := got["size of a checkpoint"]; ok || !strings.Contains(text.String(), "missing: no report of scenario deltalog") || !strings.Contains(text.String(), "commit abc") {
		t.Errorf("%v\n%s", got, text.String())
	}
}

// A constant names the file that it was read from; of several with its case the last counts, and the others are named.
func TestCostModelNamesItsFiles(t *testing.T) {
	dir := t.TempDir()
	var reports []*Report
	for i, name := range []string{"monday.json", "tuesday.json"} {
		r := modelReports()[0]
		r.Samples[0].CPUSeconds = float64(10 + i)
		file := filepath.Join(dir, name)
		var b bytes.Buffer
		if err := errors.Join(r.WriteJSON(&b), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		r, err := ReadReport(file)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	first, second := reports[0].File, reports[1].File
	if c := modelConstants(reports)[0]; c.Value != 11 || !strings.HasPrefix(c.Source, second+", ") || !strings.Contains(c.Source, "not "+first) {
		t.Errorf("of two: %+v", c)
	}
	if c := modelConstants(reports[:1])[0]; c.Value != 10 || !strings.HasPrefix(c.Source, filepath.Join(dir, "monday.json")+", ") || strings.Contains(c.Source, "not "+first) {
		t.Errorf("of one: %+v", c)
	}
}

// Bytes of a load that is followed are those of the records that were seen, not those that are still on the way.
func TestFollowingCountsBytesOfWhatWasSeen(t *testing.T) {
	f := &following{follower: newFollower(""), w: &ingestWork{}, load: &topicLoad{bytes: 1000, want: content{records: 100}}, waits: make([]time.Duration, 40)}
	if s := f.sample(); s.Records != 40 || s.Bytes != 400 {
		t.Errorf("%d bytes of %d records, want 400 of 40", s.Bytes, s.Records)
	}
}

func (m *CostModel) firstLimit() (first Estimate) {
	for _, e := range m.Estimates {
		if e.Limit > 0 {
			return e
		}
	}
	return first
}

func TestCostModelRefusesNothingToReckon(t *testing.T) {
	at := DefaultScale()
	at.FileMB = 0
	if _, err := NewCostModel(nil, at, DefaultPrices()); err == nil || !strings.Contains(err.Error(), "above 0") {
		t.Errorf("%v", err)
	}
}

func TestRequestsCostByTheirKind(t *testing.T) {
	got := requestCost(map[string]int64{"PutObject": 1000, "ListObjectsV2": 1000, "GetObject": 1000, "HeadObject": 1000, "DeleteObject": 5000}, Prices{Put1000: 3, Get1000: 1})
	if got != 8 {
		t.Errorf("%v, want 8", got)
	}
}
