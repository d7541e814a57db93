package tiering_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ledgerlake/ledgerlake/objstore/mem"
	"github.com/ledgerlake/ledgerlake/record"
)

// gather gives the value of each metric without labels of its own, and of partition 0 of the others.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["topic"] != "orders" || labels["app"] != "orders" || labels["table"] != "mem://" {
				t.Fatalf("%s has labels %v", f.GetName(), labels)
			}
			if p, ok := labels["partition"]; ok && p != "0" {
				continue
			}
			name := strings.TrimPrefix(f.GetName(), "ledgerlake_tiering_")
			switch {
			case m.Histogram != nil:
				out[name] = float64(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				out[name] = m.Counter.GetValue()
			default:
				out[name] = m.Gauge.GetValue()
			}
		}
	}
	return out
}

// The metrics tell what an operator has to know: how far behind in offsets and in time, what was written, how long it
// took, and what came to nothing.
func TestMetrics(t *testing.T) {
	r := newRig(t, 2)
	r.fill(100, 10) // record o has the time 1000+o ms
	r.log.append(t, 0, record.None, []byte("bad"))
	reg := prometheus.NewRegistry()
	r.cfg.Registerer, r.cfg.Clock = reg, func() time.Time { return time.UnixMilli(61_100) }
	tr, done := r.open()
	var failed atomic.Bool
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if strings.HasSuffix(c.Key, ".json") && c.Op == mem.OpPutIfAbsent && failed.CompareAndSwap(false, true) {
			return mem.Fault{Before: errors.New("injected")}
		}
		return mem.Fault{}
	})
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.store.SetHook(nil)
	got := gather(t, reg)
	for name, want := range map[string]float64{
		"rows_total": 200, "records_total": 201, "dead_letters_total": 1, "commits_total": 1, "retries_total": 1, "files_total": 1,
		"lag_offsets": 0, "lag_seconds": 0, "lake_end_offset": 101, "table_version": 1, "upload_seconds": 1, "version_seconds": 1,
		"budget_bytes": 16 << 20, "conflicts_total": 0, "orphan_files_total": 0, "in_flight_bytes": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v (%v), want %v", name, v, ok, want)
		}
	}
	if got["file_bytes_total"] < 500 {
		t.Errorf("file_bytes_total = %v", got["file_bytes_total"])
	}
	done()
	if left := gather(t, reg); len(left) > 0 {
		t.Errorf("after Close there are %v", left)
	}
}

// A reader of the metrics sees the lag while the table cannot be written, and a file that lost a race is counted.
func TestLagAndConflicts(t *testing.T) {
	r := newRig(t, 1)
	r.fill(100, 10)
	reg := prometheus.NewRegistry()
	r.cfg.Registerer, r.cfg.Clock = reg, func() time.Time { return time.UnixMilli(61_000) }
	tr, done := r.open()
	defer done()
	var once atomic.Bool
	var at map[string]float64
	r.store.SetHook(func(_ context.Context, c mem.Call) mem.Fault {
		if c.Op == mem.OpPutIfAbsent && strings.HasSuffix(c.Key, "00001.json") && once.CompareAndSwap(false, true) {
			at = gather(t, reg)
			rival := *r // another process commits the same records first
			rival.cfg.Registerer = nil
			rival.mustRun()
		}
		return mem.Fault{}
	})
	if err := tr.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at["lag_offsets"] != 100 || at["lag_seconds"] != 60 {
		t.Errorf("before the commit: %v", at)
	}
	if s := tr.Stats(); s.Conflicts != 1 || s.Discarded != 1 || s.Orphans != 0 || s.Rows != 0 || s.Lag[0] != 0 {
		t.Errorf("stats = %+v", s)
	}
	r.check()
}
