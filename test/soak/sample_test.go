package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ledgerlake/ledgerlake/table"
)

// Sample is what was seen at one moment.
type Sample struct {
	At      time.Duration      `json:"at"` // since the start
	Values  map[string]float64 `json:"values"`
	Produce int64              `json:"produced"`
}

// fromMetrics are the series that /metrics has under other names. Those of several partitions are summed.
var fromMetrics = map[string]string{
	"process_resident_memory_bytes": "rss", "go_memstats_heap_alloc_bytes": "heap", "go_gc_heap_live_bytes": "live", "go_goroutines": "goroutines", "process_open_fds": "handles",
	"go_memstats_heap_sys_bytes": "heap_sys", "process_cpu_seconds_total": "cpu_seconds", "ledgerlake_tiering_rows_total": "rows",
	"ledgerlake_tiering_lag_offsets": "lag", "ledgerlake_tiering_table_version": "version", "ledgerlake_tiering_restarts_total": "restarts",
	"ledgerlake_tiering_conflicts_total": "conflicts", "ledgerlake_tiering_lost_offsets_total": "lost", "ledgerlake_tiering_dead_letters_total": "dead_letters",
}

// get reads a page of the process.
func get(ctx context.Context, addr, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, resp.Status)
	}
	return body, nil
}

// metrics reads a page of Prometheus.
func metrics(ctx context.Context, addr string) (map[string]float64, error) {
	page, err := get(ctx, addr, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		name, text, ok := cutLast(lines.Text())
		name, _, _ = strings.Cut(name, "{")
		if series, known := fromMetrics[name]; ok && known {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("metric %s: %w", name, err)
			}
			out[series] += v
		}
	}
	return out, lines.Err()
}

func cutLast(line string) (name, value string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || strings.HasPrefix(line, "#") {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// files adds what the table's log and its folder have. A file is small when it is below half of target. Files that were
// seen in the table and have gone are made older by two hours after keep: a vacuum knows of them by the log, and when its cleanup
// was there first, it takes them for files of a writer that is about to commit them, and gives that one an hour.
func files(ctx context.Context, t *table.Table, dir string, target int64, keep time.Duration, seen map[string]bool, into map[string]float64) error {
	snap, err := t.Refresh(ctx)
	if err != nil {
		return err
	}
	into["live_files"], into["live_bytes"], into["small_files"] = float64(snap.NumFiles()), float64(snap.SizeBytes()), 0
	live := map[string]bool{}
	for f := range snap.Files() {
		live[f.Path], seen[f.Path] = true, true
		if f.Size < target/2 {
			into["small_files"]++
		}
	}
	into["dropped_files"] = 0 // of older versions, until a vacuum; and of commits that were made since
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "_") || strings.HasPrefix(e.Name(), ".") || live[e.Name()] {
			continue
		}
		into["dropped_files"]++
		if !seen[e.Name()] {
			continue
		}
		info, err := e.Info()
		if age := time.Since(mtime(info)); err == nil && age > keep && age < time.Hour {
			old := info.ModTime().Add(-2 * time.Hour)
			err = os.Chtimes(filepath.Join(dir, e.Name()), old, old)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	log, err := count(filepath.Join(dir, "_delta_log"), func(string) bool { return true })
	into["log_files"] = float64(log)
	return err
}

// mtime is the time of a file, now for one that has gone.
func mtime(info fs.FileInfo) time.Time {
	if info == nil {
		return time.Now()
	}
	return info.ModTime()
}

// ageLog makes the commits and checkpoints that are older than keep three days old. The protocol counts the age of a log
// in whole days, so that its cleanup, which the run is to have many rounds of, would have nothing to do.
func ageLog(dir string, keep time.Duration) error {
	log := filepath.Join(dir, "_delta_log")
	entries, err := os.ReadDir(log)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, e := range entries {
		version, err := strconv.ParseInt(strings.SplitN(e.Name(), ".", 2)[0], 10, 64)
		if err != nil || !e.Type().IsRegular() {
			continue // no file of a version
		}
		info, err := e.Info()
		if err == nil && now.Sub(info.ModTime()) > keep && now.Sub(info.ModTime()) < 24*time.Hour {
			old := now.Add(-72 * time.Hour).Truncate(24 * time.Hour).Add(time.Duration(version) * time.Millisecond) // in order
			err = os.Chtimes(filepath.Join(log, e.Name()), old, old)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// count counts files below a folder that others write to and delete from meanwhile.
func count(dir string, wanted func(path string) bool) (n int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.IsDir() && wanted(strings.TrimPrefix(path, dir)):
			n++
		}
		return nil
	})
	return n, err
}

// folderBytes sums a folder's files.
func folderBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // it is for information
	})
	return sum
}
