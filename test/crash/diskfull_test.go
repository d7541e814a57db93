package crash

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/test/harness"
)

// The disk of the leader is full, really: it is a small file system, with room for two logs, since one that is cut back is
// copied. The leader stops with a word about it and the others go on; with room again it comes back and catches up. Nothing
// that was acknowledged is lost (I3, I5).
func TestDiskOfTheLeaderIsFull(t *testing.T) {
	url := filepath.Join(t.TempDir(), "events")
	store := newPlainTable(t, url)
	g := harness.Committers(t, 3)
	lead, _ := g.Leader(t)
	g.Caught(t, lead) // else the entry of its election may be its alone, and a log that is cut back is a new one, of full size
	g.Nodes[lead].Kill()
	onSmallDisk(t, g.Dir(lead))
	g.Start(t, lead)
	g.Caught(t, lead)
	g.Transfer(t, lead)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writers := make([]*plainWriter, 8)
	var wg sync.WaitGroup
	for i := range writers {
		w := &plainWriter{id: int32(i), store: store, tab: g.Client(t).Table(url)}
		writers[i] = w
		wg.Go(func() { w.run(ctx) })
	}
	rows := func() (n record.Offset) {
		for _, w := range writers {
			n += w.at()
		}
		return n
	}
	goOn := func(n record.Offset) {
		t.Helper()
		want := rows() + n
		harness.Eventually(t, time.Minute, func() error {
			if rows() < want {
				return errors.New("the writers do not go on")
			}
			return nil
		})
	}
	goOn(100)
	ballast := fill(t, g.Dir(lead))
	harness.Eventually(t, harness.Patience, func() error {
		select {
		case <-g.Nodes[lead].Done():
			return nil
		default:
			fill(t, g.Dir(lead)) // a log that was cut back, or a snapshot that was dropped, has given room
			return errors.New("the node with a full disk runs on")
		}
	})
	log := g.Nodes[lead].Log()
	if !strings.Contains(log, "no space left on device") || !strings.Contains(log, "start it again") {
		t.Errorf("it says:\n%s", log)
	}
	goOn(200)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	g.Start(t, lead)
	g.Caught(t, lead)
	g.Transfer(t, lead)
	goOn(100)
	cancel()
	wg.Wait()
	for _, w := range writers {
		if w.err != nil {
			t.Errorf("writer %d: %v", w.id, w.err)
		}
		w.settle(t)
	}
	wantPlainRows(t, url, writers, nil)
	t.Logf("%d rows; the leader said: %s", rows(), strings.TrimSpace(log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:]))
}

// onSmallDisk puts a directory on a file system of 160 MB of its own.
func onSmallDisk(t *testing.T, dir string) {
	t.Helper()
	old := dir + ".old"
	if err := errors.Join(os.Rename(dir, old), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Skipf("SKIP: a small file system cannot be mounted here, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	if out, err := exec.Command("cp", "-a", "--sparse=always", old+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v\n%s", err, out)
	}
}

// fill takes all the room that is left, again if need be, and gives the file that does.
func fill(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return name
}

// A committer shows what it does to Prometheus.
func TestCommitterMetrics(t *testing.T) {
	url := filepath.Join(t.TempDir(), "events")
	store := newPlainTable(t, url)
	port := harness.FreePort(t, 0)
	addr := "127.0.0.1:" + strconv.Itoa(port)
	g := harness.Committers(t, 1, "--metrics-listen", addr)
	g.Leader(t)
	w := &plainWriter{store: store, tab: g.Client(t).Table(url)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.run(ctx); close(done) }()
	harness.Eventually(t, time.Minute, func() error {
		if w.at() < 50 {
			return errors.New("no rows yet")
		}
		return nil
	})
	cancel()
	<-done
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ledgerlake_committer_leader 1", `ledgerlake_committer_requests_total{answer="published"}`,
		`ledgerlake_committer_versions_total{kind="own"}`, "ledgerlake_committer_put_seconds_count", "ledgerlake_committer_decide_seconds_count",
		"ledgerlake_committer_version_requests_sum", `ledgerlake_committer_table_version{table="` + url + `"}`, "process_cpu_seconds_total"} {
		if !strings.Contains(string(body), name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
}
