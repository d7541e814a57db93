package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both versions of control groups are found by what the system says of this process, and each is told its own way.
func TestControlGroupsOfBothVersions(t *testing.T) {
	for _, x := range []struct{ name, self, parent, file, says string }{
		{"version 2", "0::/user/one\n", "user/one", "cpu.max", "25000 100000"},
		{"version 1 beside 2", "2:cpuacct,cpu:/x\n1:memory:/y\n0::/\n", "cpu/x", "cpu.cfs_quota_us", "25000"},
	} {
		root, self := t.TempDir(), filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(self, []byte(x.self), 0o644); err != nil {
			t.Fatal(err)
		}
		parent, limit, err := cpuGroups(self, root)
		if err != nil || parent != filepath.Join(root, x.parent) {
			t.Fatalf("%s: %s, %v", x.name, parent, err)
		}
		dir := t.TempDir()
		for _, name := range []string{"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"} { // the system's own files are there
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := limit(dir, 25000); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, x.file))
		if err != nil || string(b) != x.says {
			t.Errorf("%s: %s says %q, want %q, %v", x.name, x.file, b, x.says, err)
		}
	}
	none := filepath.Join(t.TempDir(), "cgroup")
	if err := os.WriteFile(none, []byte("1:memory:/y\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cpuGroups(none, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no control groups") {
		t.Errorf("without any: %v", err)
	}
}

func TestSmallestBoxIsOneThatHeld(t *testing.T) {
	r := &Report{Scenario: "deployments", Samples: []Sample{
		{Case: "ledgerlake, talk A, no limit", Seconds: 10, CPUSeconds: 0.6, MaxMB: 90, Records: 1, P50: 1},
		{Case: "ledgerlake, talk A, 0.05 of a processor a task", CPULimit: 0.05, Failed: "did not keep up"},
		{Case: "ledgerlake, talk A, 0.1 of a processor a task", CPULimit: 0.1, P50: 1000, P99: 2000},
		{Case: "ledgerlake, talk A, 0.07 of a processor a task", CPULimit: 0.07, P50: 1500, P99: 3000},
		{Case: "kafka-delta-ingest, talk A, 0.03 of a processor a task", CPULimit: 0.03},
	}}
	if got := r.smallestBox(sideOurs, "talk A"); got != 0.07 {
		t.Errorf("%v, want 0.07", got)
	}
	if got := r.smallestBox(sideOurs, "talk B"); got != 0 {
		t.Errorf("a deployment that did not run has the box %v", got)
	}
	if i := stepAbove(0.06); boxSteps[i] != 0.07 {
		t.Errorf("the step above 0.06 is %v", boxSteps[i])
	}
	if i := stepAbove(5); boxSteps[i] != 2 {
		t.Errorf("the step above 5 is %v", boxSteps[i])
	}
	if b := r.boxes(); len(b.Samples) != 1 || b.Samples[0].Case != "ledgerlake, talk A" {
		t.Errorf("%+v", b.Samples)
	}
}
