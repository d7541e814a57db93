package clients

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ledgerlake/ledgerlake/test/harness"
)

// job is a running Kafka Streams job of StreamsCount.java.
type job struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *bytes.Buffer
	ended chan struct{}
	err   error
}

func startJob(t *testing.T, addr, state string) *job {
	t.Helper()
	file, err := filepath.Abs("StreamsCount.java")
	if err != nil {
		t.Fatal(err)
	}
	j := &job{said: &bytes.Buffer{}, ended: make(chan struct{})}
	j.cmd = exec.Command(script(t, "clients.sh"), "streams", file, "StreamsCount", addr, state, "in", "out")
	if j.stdin, err = j.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	j.cmd.Stdout, j.cmd.Stderr, j.cmd.WaitDelay = j.said, j.said, 5*time.Second
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		j.err = j.cmd.Wait()
		close(j.ended)
	}()
	t.Cleanup(j.kill)
	return j
}

// kill ends the job as a crash does.
func (j *job) kill() {
	_ = j.cmd.Process.Kill()
	<-j.ended
}

// alive fails the test when the job has ended by itself.
func (j *job) alive(t *testing.T) {
	t.Helper()
	select {
	case <-j.ended:
		t.Fatalf("the job ended: %v\n%s", j.err, j.said.Bytes())
	default:
	}
}

// A Kafka Streams job, exactly_once_v2, reads a topic whose first half is in the lake alone, repartitions it, keeps its
// state in a changelog, is killed in the middle, as the server is, and goes on: each group is counted 1, 2, 3... without
// a gap or a repeat (I1, I2, I4, I6).
func TestStreamsExactlyOnce(t *testing.T) {
	need(t)
	const half, groups = 3000, 7
	dir := t.TempDir()
	args := []string{"--flush-age", "200ms", "--format", "raw", "--topic", "in:3", "--topic", "out:1"}
	s := harness.Serve(t, dir, "", args...)
	values := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	send(t, s.Addr, "in", values(0, half))
	onlyInTheLake(t, s, "in", half)

	state := t.TempDir()
	j := startJob(t, s.Addr, state)
	send(t, s.Addr, "in", values(half, half+half/2))
	awaitOut := func(n int64) {
		t.Helper()
		harness.Eventually(t, time.Minute, func() error {
			j.alive(t)
			if end := harness.Ends(t, s.Addr, "out")[0]; end < n {
				return fmt.Errorf("the output ends at %d, want %d", end, n)
			}
			return nil
		})
	}
	awaitOut(half / 10)
	j.kill()
	s.Kill()
	s = harness.Serve(t, dir, s.Addr, args...)
	j = startJob(t, s.Addr, state)
	send(t, s.Addr, "in", values(half+half/2, 2*half))

	counts := map[string]uint64{}
	harness.Eventually(t, 5*time.Minute, func() error {
		j.alive(t)
		clear(counts)
		recs := harness.Consume(t, s.Addr, "out")
		for _, r := range recs {
			n := binary.BigEndian.Uint64(r.Value)
			if key := string(r.Key); n != counts[key]+1 {
				t.Fatalf("offset %d: %s is counted %d after %d", r.Offset, key, n, counts[key])
			}
			counts[string(r.Key)]++
		}
		if len(recs) < 2*half {
			return fmt.Errorf("%d counts are committed, want %d", len(recs), 2*half)
		}
		return nil
	})
	for g := range groups {
		want := uint64(2 * half / groups)
		if g < 2*half%groups {
			want++
		}
		if got := counts[fmt.Sprint("group ", g)]; got != want {
			t.Errorf("group %d is counted to %d, want %d", g, got, want)
		}
	}
	if err := j.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-j.ended
	if j.err != nil {
		t.Errorf("the job did not end well: %v\n%s", j.err, j.said.Bytes())
	}
}
